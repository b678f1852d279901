package starter

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/limits"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/session"
)

// optionFlags are the flags that say what a session is made with.
type optionFlags struct {
	agent, profile, title, workspace, model, permission, tenant string

	meta, tags []string
	idle       time.Duration
	noProgress time.Duration
	limits     limits.Limits
	work       time.Duration
	rules      permission.Rules
	// noRules removes those that are there.
	noRules  bool
	deadline time.Duration
	// given reports whether a flag is on the command line.
	given func(name string) bool
}

func (f *optionFlags) register(c *cli, cmd *cobra.Command) {
	fl := cmd.Flags()
	f.given = fl.Changed
	fl.StringVar(&f.agent, "agent", "", c.agentUsage())
	fl.StringVar(&f.profile, "profile", "", "what the agent is given beside the prompt: a profile's `NAME`")
	fl.StringVar(&f.title, "title", "", "the title in lists, as `TEXT` (default: the first message)")
	fl.StringVar(&f.workspace, "workspace", "", "work in the folder `DIR` of the session's host, in place (default: an empty folder of its own)")
	fl.StringVar(&f.model, "model", "", "the agent's own `NAME` for the model")
	f.registerPermissions(cmd)
	fl.StringVar(&f.tenant, "tenant", "", "whose session it is, as `NAME`")
	fl.DurationVar(&f.noProgress, "no-progress", 0, "end a turn whose agent says nothing for `TIME` (default 15m)")
	f.registerBag(cmd)
}

// registerPermissions adds the flags of what an agent that asks is answered.
func (f *optionFlags) registerPermissions(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.permission, "permission", "", "the answer to an agent that asks before it acts: `allow|ask|deny`")
	for answer, help := range map[permission.Answer]string{
		permission.Allow: "allow", permission.Ask: "ask a person for", permission.Deny: "deny",
	} {
		fl.Var(&ruleFlag{answer, &f.rules}, string(answer),
			help+" what a tool is to do, as `TOOL[:PATTERN]`, such as 'Bash:git *'; the first of these flags that matches answers (repeatable)")
	}
	fl.DurationVar(&f.deadline, "permission-deadline", 0, "deny what nobody has answered in `TIME`")
}

// ruleFlag adds rules with one answer, in the order of the flags given.
type ruleFlag struct {
	answer permission.Answer
	rules  *permission.Rules
}

func (r *ruleFlag) Set(value string) error {
	tool, match, _ := strings.Cut(value, ":")
	*r.rules = append(*r.rules, permission.Rule{Tool: tool, Match: match, Answer: r.answer})
	return r.rules.Validate()
}

func (r *ruleFlag) Type() string   { return "rule" }
func (r *ruleFlag) String() string { return "" }

// registerBag adds the flags that configure has too.
func (f *optionFlags) registerBag(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringArrayVar(&f.meta, "meta", nil, "metadata, as `KEY=VALUE`; the value is JSON if it parses, else text (repeatable)")
	fl.StringArrayVar(&f.tags, "tag", nil, "a `TAG` for lists (repeatable)")
	fl.DurationVar(&f.idle, "idle-timeout", 0, "give up the sandbox after so much idle `TIME` (default 15m)")
	fl.Float64Var(&f.limits.CostUSD, "max-cost", 0, "pause the session when it has cost so many `DOLLARS`")
	fl.Int64Var(&f.limits.Tokens, "max-tokens", 0, "pause the session when it has used `N` input and output tokens")
	fl.IntVar(&f.limits.Turns, "max-turns", 0, "pause the session behind `N` turns")
	fl.DurationVar(&f.work, "max-work", 0, "pause the session when its turns have run for `TIME` in all")
}

func (f *optionFlags) options() (session.Options, error) {
	o := session.Options{
		Agent: f.agent, Profile: f.profile, Title: f.title, Model: f.model, Tenant: f.tenant,
		Permission: adapters.Permission(f.permission), Tags: f.tags, IdleTimeoutMS: f.idle.Milliseconds(),
		Permissions: f.rules, PermissionDeadline: permission.Deadline{AfterMS: f.deadline.Milliseconds()},
		NoProgressMS: f.noProgress.Milliseconds(), Limits: f.limits,
	}
	o.Limits.WorkMS = f.work.Milliseconds()
	var err error
	if o.Metadata, err = metadata(f.meta); err != nil {
		return o, err
	}
	if f.workspace == "" && f.given("workspace") {
		return o, usage("--workspace wants a folder of the session's host", "--workspace: is empty")
	}
	if o.Workspace, err = workspaceDir(f.workspace); err != nil {
		return o, err
	}
	return o, o.Validate()
}

// metadata reads KEY=VALUE pairs; a value that is JSON is taken as that.
func metadata(pairs []string) (map[string]json.RawMessage, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	bag := map[string]json.RawMessage{}
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, usage("write --meta KEY=VALUE", "--meta %q has no key and value", pair)
		}
		raw := json.RawMessage(value)
		if !json.Valid(raw) {
			text, err := json.Marshal(value)
			if err != nil {
				return nil, err
			}
			raw = text
		}
		bag[key] = raw
	}
	return bag, nil
}

// workspaceDir makes the path absolute. Whether the folder is there only the host
// knows that will work in it, which may be another machine.
func workspaceDir(dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	return filepath.Abs(dir)
}

func (c *cli) newCommand() *cobra.Command {
	var f optionFlags
	var id string
	cmd := &cobra.Command{
		Use:     "new",
		Short:   "Make a session and print its id",
		Long:    "Make a session and print its id. The agent is started by the first message.",
		Example: "  sojourn new --agent claude --workspace . --title \"Fix the parser\"",
		Args:    wants,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.create(cmd.Context(), id, &f) },
	}
	f.register(c, cmd)
	cmd.Flags().StringVar(&id, "id", "", "the session's `ID`: 1 to 64 of A-Z a-z 0-9 _ - (default: a new UUID)")
	return cmd
}

// givenID checks the id for a new session, if one is given. One that begins
// with a dash is mostly a flag behind an --id without its value.
func givenID(given func(string) bool, id string) error {
	if !given("id") {
		return nil
	}
	if strings.HasPrefix(id, "-") {
		return usage("--id wants an id that does not begin with -", "--id: %q looks like a flag", id)
	}
	return session.ValidateID("--id", id)
}

// options checks what a session is to be made with.
func (c *cli) options(ctx context.Context, id string, f *optionFlags) (session.Options, error) {
	if _, err := c.agent(f.agent); err != nil {
		return session.Options{}, err
	}
	o, err := f.options()
	if err == nil {
		err = givenID(f.given, id)
	}
	if err == nil && o.Profile != "" {
		err = c.checkProfile(ctx, o.Profile)
	}
	return o, err
}

func (c *cli) create(ctx context.Context, id string, f *optionFlags) error {
	o, err := c.options(ctx, id, f)
	if err != nil {
		return err
	}
	sc, err := c.client(ctx, needTemporal|needArchiveNow)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	h, err := sc.Create(ctx, id, o)
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(struct {
			SessionID string `json:"sessionId"`
			session.Options
		}{h.ID(), o})
	}
	return writeLine(c.stdout, h.ID())
}
