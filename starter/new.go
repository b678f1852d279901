package starter

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/limits"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/session"
)

// optionFlags are the flags for a session's options.
type optionFlags struct {
	agent, profile, title, workspace, model, permission, tenant string

	meta, tags []string
	idle       time.Duration
	noProgress time.Duration
	limits     limits.Limits
	maxTicks   int
	spawn      bool
	spawnWith  []string
	system     string
	work       time.Duration
	rules      permission.Rules
	// noRules removes those that are there, noEffects those of unknown effects.
	noRules, noEffects bool

	effects  permission.EffectRules
	deadline time.Duration
	park     permission.Park
	// given reports whether a flag is on the command line.
	given func(name string) bool
}

func (f *optionFlags) register(c *cli, cmd *cobra.Command) {
	fl := cmd.Flags()
	f.given = fl.Changed
	fl.StringVar(&f.agent, "agent", "", "required: "+c.agentUsage())
	fl.StringVar(&f.profile, "profile", "", "the team's settings for the agent: a profile's `NAME`")
	fl.StringVar(&f.title, "title", "", "the title in lists, as `TEXT` (default: the first message)")
	fl.StringVar(&f.workspace, "workspace", "", "work in the folder `DIR` of the session's host, in place (default: an empty folder of its own)")
	fl.StringVar(&f.model, "model", "", "the agent's own `NAME` for the model")
	f.registerPermissions(cmd)
	fl.StringVar(&f.system, "system-prompt", "", "`TEXT` behind the agent's own system prompt")
	fl.BoolVar(&f.spawn, "spawn", false, "let the agent spawn child sessions by itself, with tools of an MCP server named sojourn")
	fl.StringArrayVar(&f.spawnWith, "spawn-profile", nil, "with --spawn, let the agent spawn with the profile `NAME` too (repeatable; default: the session's own)")
	fl.StringVar(&f.tenant, "tenant", "", "whose session it is, as `NAME`")
	fl.DurationVar(&f.noProgress, "no-progress", 0, "end a turn whose agent is silent for `TIME` (default 15m)")
	f.registerMetadata(cmd)
}

// registerPermissions adds the flags for answers to permission requests.
func (f *optionFlags) registerPermissions(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.permission, "permission", "", "the answer to an agent that asks before it acts: `allow|ask|deny`")
	for answer, help := range map[permission.Answer]string{
		permission.Allow: "allow", permission.Ask: "ask a person for", permission.Deny: "deny",
	} {
		fl.Var(&ruleFlag{answer, &f.rules}, string(answer),
			help+" what a tool is to do, as `TOOL[:PATTERN]`, such as 'Bash:git *'; the first of these flags that matches answers (repeatable)")
	}
	fl.DurationVar(&f.deadline, "permission-deadline", 0, "deny a request that is unanswered after `TIME`")
	fl.Var(&effectFlag{&f.effects}, "unknown-effect",
		"what follows when a tool is at work as its host or runner is lost, as `RULE`: continue, ask (a person) or fail, the tool and perhaps a pattern, "+
			"such as 'ask:Bash:make deploy*'; the first that matches counts; without one the agent is told and continues (repeatable)")
	fl.Var((*parkFlag)(&f.park), "park", "stop the agent and give up its sandbox when a request is unanswered for `TIME|never`; the answer resumes it (default 1h)")
}

// parkFlag is a time, never, or default.
type parkFlag permission.Park

func (f *parkFlag) String() string {
	switch p := permission.Park(*f); p {
	case 0:
		return ""
	case permission.ParkNever:
		return "never"
	default:
		return p.After().String()
	}
}

func (f *parkFlag) Type() string { return "TIME|never" }

func (f *parkFlag) Set(s string) error {
	switch s {
	case "never":
		*f = parkFlag(permission.ParkNever)
		return nil
	case "default":
		*f = 0
		return nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Millisecond {
		return fmt.Errorf("%q is no time from 1ms on, as in 30m, nor never, nor default", s)
	}
	*f = parkFlag(d.Milliseconds())
	return nil
}

// effectFlag adds rules for calls whose effect is unknown, in the order of the flags.
type effectFlag struct{ rules *permission.EffectRules }

func (f *effectFlag) Set(value string) error {
	then, rest, _ := strings.Cut(value, ":")
	tool, match, _ := strings.Cut(rest, ":")
	*f.rules = append(*f.rules, permission.EffectRule{Tool: tool, Match: match, Then: permission.OnLoss(then)})
	return f.rules.Validate()
}

func (f *effectFlag) Type() string   { return "rule" }
func (f *effectFlag) String() string { return "" }

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

// registerMetadata adds the flags that configure has too.
func (f *optionFlags) registerMetadata(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringArrayVar(&f.meta, "meta", nil, "metadata, as `KEY=VALUE`; the value is JSON if it parses, else text (repeatable)")
	fl.StringArrayVar(&f.tags, "tag", nil, "a `TAG` for lists (repeatable)")
	fl.DurationVar(&f.idle, "idle-timeout", 0, "give up the sandbox after so much idle `TIME` (default 15m)")
	fl.Float64Var(&f.limits.CostUSD, "max-cost", 0, "pause the session when it has cost so many `DOLLARS`, with its children")
	fl.Int64Var(&f.limits.Tokens, "max-tokens", 0, "pause the session when it has used `N` input and output tokens, with its children")
	fl.IntVar(&f.limits.ModelCalls, "max-calls", 0, "pause the session after `N` model calls")
	fl.IntVar(&f.maxTicks, "max-ticks", 0, "end each message's turn behind `N` model calls")
	fl.IntVar(&f.limits.Turns, "max-turns", 0, "pause the session after `N` turns")
	fl.DurationVar(&f.work, "max-work", 0, "pause the session when its turns have run for `TIME` in all")
}

func (f *optionFlags) options() (session.Options, error) {
	o := session.Options{
		Agent: f.agent, Profile: f.profile, Title: f.title, Model: f.model, Tenant: f.tenant,
		Permission: adapters.Permission(f.permission), Tags: f.tags, IdleTimeoutMS: f.idle.Milliseconds(),
		Permissions: f.rules, PermissionDeadline: permission.Deadline{AfterMS: f.deadline.Milliseconds()}, Park: f.park,
		UnknownEffects: f.effects, NoProgressMS: f.noProgress.Milliseconds(), Limits: f.limits, MaxTicks: f.maxTicks, Spawn: f.spawn, SpawnProfiles: f.spawnWith, SystemPrompt: f.system,
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

// metadata parses KEY=VALUE pairs; a value that is JSON is used as JSON.
func metadata(pairs []string) (map[string]json.RawMessage, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	values := map[string]json.RawMessage{}
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
		values[key] = raw
	}
	return values, nil
}

// workspaceDir makes the path absolute. Only the host that will work in it, which
// may be another machine, can check whether the folder exists.
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

// givenID checks the id for a new session, if one is given. One that begins with
// a dash is usually a flag after an --id without a value.
func givenID(given func(string) bool, id string) error {
	if !given("id") {
		return nil
	}
	if strings.HasPrefix(id, "-") {
		return usage("--id wants an id that does not begin with -", "--id: %q looks like a flag", id)
	}
	return session.ValidateID("--id", id)
}

// options validates the options of a new session.
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
