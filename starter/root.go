package starter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/session"
)

// The groups of commands in the help.
const (
	groupTalk   = "talk"
	groupManage = "manage"
	groupLocal  = "local"
	groupSetup  = "setup"
)

const helpTemplate = `{{with .Long}}{{.}}

{{end}}Usage: {{.UseLine}}
{{range $group := .Groups}}
{{$group.Title}}
{{range $.Commands}}{{if and (eq .GroupID $group.ID) .IsAvailableCommand}}  {{rpad .Name 13}}{{.Short}}
{{end}}{{end}}{{end}}{{if .HasExample}}
Examples:
{{.Example}}
{{end}}{{if .HasAvailableLocalFlags}}
Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}
{{end}}{{if .HasAvailableInheritedFlags}}
Flags of every command:
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}
{{end}}`

// inOurOrder keeps commands in the order in which they are added; the library has
// one switch for all trees of a process.
var inOurOrder = sync.OnceFunc(func() { cobra.EnableCommandSorting = false })

// root returns the tree of commands.
func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:     "sojourn COMMAND",
		Long:    "Sojourn runs AI agent sessions as durable Temporal workflows.",
		Version: buildVersion(),
		Args:    unknownCommand,
		RunE:    noCommand,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			c.given = cmd.Flags().Changed
			return c.loadSettings()
		},
		SilenceErrors: true, SilenceUsage: true, DisableSuggestions: true,
		DisableFlagsInUseLine: true,
		CompletionOptions:     cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetIn(c.stdin)
	root.SetOut(c.stdout)
	root.SetErr(c.stderr)
	root.SetHelpTemplate(helpTemplate)
	root.SetVersionTemplate("sojourn {{.Version}}\n")
	root.SetFlagErrorFunc(badFlag)
	root.SetHelpCommand(helpCommand())
	root.PersistentFlags().BoolVar(&c.json, "json", false, "print JSON: one value, or lines where it streams")
	root.PersistentFlags().StringVar(&c.envFile, "env-file", "", "read settings that the environment does not set (NAME='value' lines) from `FILE`")
	root.AddGroup(
		&cobra.Group{ID: groupTalk, Title: "Talk to a session:"},
		&cobra.Group{ID: groupManage, Title: "Manage sessions:"},
		&cobra.Group{ID: groupLocal, Title: "Read agents' own files, without any server:"},
		&cobra.Group{ID: groupSetup, Title: "Set up:"},
	)
	inOurOrder()
	c.add(root, groupTalk, c.runCommand, c.batchCommand, c.scheduleCommand, c.newCommand, c.sendCommand, c.chatCommand, c.tailCommand, c.showCommand, c.waitCommand, c.resultCommand, c.respondCommand)
	c.add(root, groupManage, c.lsCommand, c.inboxCommand, c.describeCommand, c.interruptCommand, c.queueCommand, c.clearAbortCommand, c.configureCommand, c.spawnCommand, c.evictCommand, c.closeCommand, c.openCommand, c.forkCommand, c.mergeCommand, c.deleteCommand, c.filesCommand, c.exportCommand)
	c.add(root, groupLocal, c.parseCommand, c.translateCommand, c.reduceCommand)
	c.add(root, groupSetup, c.setupCommand, c.doctorCommand, c.agentsCommand, c.profileCommand, c.drainCommand, c.serveCommand, c.completionCommand, c.versionCommand)
	root.AddCommand(c.referenceCommand())
	return root
}

func (c *cli) add(root *cobra.Command, group string, commands ...func() *cobra.Command) {
	for _, command := range commands {
		cmd := command()
		cmd.GroupID = group
		for _, cmd := range append(cmd.Commands(), cmd) {
			cmd.DisableFlagsInUseLine = true
			c.takesBeginnings(cmd)
		}
		root.AddCommand(cmd)
	}
}

// takesBeginnings lets a command accept the beginning of a session's id. Only an
// unknown id is treated as one, so that exact ids cost nothing. Delete takes whole ids
// only: repeated, it would find another session that begins like the one that is gone.
func (c *cli) takesBeginnings(cmd *cobra.Command) {
	run := cmd.RunE
	if names := strings.Fields(cmd.Use); len(names) < 2 || names[1] != "ID" || names[0] == "delete" {
		return
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		unknown := run(cmd, args)
		if !errors.Is(unknown, session.ErrNotFound) && !errors.Is(unknown, archive.ErrNotFound) || errors.As(unknown, new(*session.NoMessageError)) {
			return unknown
		}
		ids, err := c.beginningWith(cmd.Context(), args[0])
		switch {
		case err != nil || len(ids) == 0 || slices.Contains(ids, args[0]):
			return unknown // the first failure matters
		case len(ids) > 1:
			return usage("give more of it", "id: %q begins %s", args[0], strings.Join(ids, ", "))
		}
		fmt.Fprintf(c.stderr, "sojourn: session %s\n", ids[0])
		return run(cmd, append(ids[:1:1], args[1:]...))
	}
}

// minBeginning is long enough that a typing error is not a valid beginning.
const minBeginning = 4

// beginningWith returns the sessions whose ids have the prefix, ten at most.
func (c *cli) beginningWith(ctx context.Context, begin string) ([]string, error) {
	if len(begin) < minBeginning {
		return nil, nil
	}
	sc, err := c.client(ctx, needTemporal)
	if err != nil {
		return nil, err
	}
	found, err := collect(ctx, sc, listFlags{query: "WorkflowId STARTS_WITH '" + begin + "'", all: true, limit: 10})
	var ids []string
	for _, s := range found.Sessions {
		ids = append(ids, s.SessionID)
	}
	return ids, err
}

// helpCommand is for people who type "sojourn help send"; it is not listed.
func helpCommand() *cobra.Command {
	return &cobra.Command{Use: "help", Hidden: true, RunE: func(cmd *cobra.Command, args []string) error {
		of, rest, err := cmd.Root().Find(args)
		if err != nil || len(rest) > 0 {
			return unknownCommand(cmd.Root(), args)
		}
		return of.Help()
	}}
}

// inFlag matches the flag parser's error for an invalid value; behind it is the
// text of the cause.
var inFlag = regexp.MustCompile(`(?s)^invalid argument (".*") for "(?:-., )?--([^"]+)" flag: `)

// kinds are descriptions of the flags' values, by the parser's names.
var kinds = map[string]string{
	"uint64": "a whole number from 0", "int": "a whole number", "bool": "true or false", "duration": "a time such as 90s, 15m or 2h",
}

// badFlag returns the error for an unknown flag, or for an invalid value.
func badFlag(cmd *cobra.Command, err error) error {
	hint := cmd.CommandPath() + " --help shows its flags"
	at := inFlag.FindStringSubmatch(err.Error())
	if at == nil {
		return usage(hint, "%s", err)
	}
	value, name := at[1], at[2]
	if errors.Is(err, strconv.ErrRange) {
		return usage(hint, "--%s %s is too large", name, value)
	}
	want := "a value"
	if flag := cmd.Flag(name); flag != nil {
		want = cmp.Or(kinds[flag.Value.Type()], want)
	}
	return usage(hint, "--%s %s is not %s", name, value, want)
}

func noCommand(*cobra.Command, []string) error {
	return usage("sojourn --help lists the commands", "no command is given")
}

func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "sojourn --help lists the commands"
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "? " + hint
	}
	return usage(hint, "unknown command %q", args[0])
}

// wants checks the number of arguments against the names in the command's use
// line; a last name that ends in … may be repeated, and one in brackets may be
// omitted.
func wants(cmd *cobra.Command, args []string) error {
	names := strings.Fields(cmd.Use)[1:]
	last := ""
	if len(names) > 0 {
		last = names[len(names)-1]
	}
	many, optional := strings.HasSuffix(last, "…"), strings.HasPrefix(last, "[")
	switch {
	case optional && len(args) == len(names)-1:
	case len(args) < len(names):
		return usage("usage: "+cmd.UseLine(), "%s is missing", strings.TrimSuffix(names[len(args)], "…"))
	case len(args) > len(names) && !many:
		return usage("usage: "+cmd.UseLine(), "%q is one argument too many; quote a text with spaces", args[len(names)])
	}
	return nil
}

func (c *cli) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: wants,
		RunE: func(*cobra.Command, []string) error {
			if c.json {
				return c.printJSON(struct {
					Version string `json:"version"`
				}{buildVersion()})
			}
			return writeLine(c.stdout, "sojourn "+buildVersion())
		},
	}
}

func (c *cli) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "completion bash|zsh|fish|powershell",
		Short:   "Print a script with which a shell completes commands and flags",
		Example: "  source <(sojourn completion bash)",
		Args:    wants,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(c.stdout, true)
			case "zsh":
				return root.GenZshCompletion(c.stdout)
			case "fish":
				return root.GenFishCompletion(c.stdout, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(c.stdout)
			}
			return usage("usage: "+cmd.UseLine(), "%q is no shell that is known", args[0])
		},
	}
}

// version is set by the linker in builds of releases.
var version string

// buildVersion returns the version that was built: the linker's, else the
// module's, with the commit for a build from a checkout.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return cmp.Or(version, "unknown")
	}
	if version != "" {
		return fmt.Sprintf("%s (%s)", version, info.GoVersion)
	}
	var revision, dirty string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = ", modified"
		}
	}
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel"
	}
	if revision == "" {
		return fmt.Sprintf("%s (%s)", v, info.GoVersion)
	}
	return fmt.Sprintf("%s (commit %s%s, %s)", v, revision, dirty, info.GoVersion)
}
