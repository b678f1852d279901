package adapters_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/claude"
	"github.com/sojourn-run/sojourn/adapters/codex"
	"github.com/sojourn-run/sojourn/adapters/gemini"
	"github.com/sojourn-run/sojourn/adapters/opencode"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
)

// process plays an agent's process under its runner: what is written is recorded, and read
// when the test says so.
type process struct {
	t        *testing.T
	dialogue *adapters.Dialogue
	// unread are the written lines whose records were not read yet.
	unread  []string
	written []string
}

func processOf(t *testing.T, a adapters.Adapter) *process {
	tr, err := a.Translator(adapters.Launch{NativeID: "main", Workspace: "/w"}, nil)
	require.NoError(t, err)
	p := &process{t: t}
	p.dialogue = adapters.NewDialogue(tr, func(_ context.Context, m adapters.Message) error {
		p.unread, p.written = append(p.unread, string(m.Data)), append(p.written, m.ID)
		return nil
	})
	return p
}

func (p *process) say(id string, in adapters.Input) {
	p.t.Helper()
	require.NoError(p.t, p.dialogue.Say(p.t.Context(), id, in))
}

// read reads the record of the line that was written first.
func (p *process) read() {
	p.t.Helper()
	line := p.unread[0]
	p.unread = p.unread[1:]
	p.step(event.DirIn, line)
}

func (p *process) step(dir event.Dir, line string) {
	p.t.Helper()
	_, err := p.dialogue.Step(p.t.Context(), traffic.Record{Dir: dir, Line: line})
	require.NoError(p.t, err)
}

// openings are what each agent answers to its opening, message by message, and to a prompt.
var openings = map[string]struct {
	adapter  adapters.Adapter
	opening  []string
	prompted []string
}{
	"claude": {adapter: claude.New()},
	"opencode": {opencode.New(), []string{
		`{"type":"sojourn.response","id":"init","status":200,"body":{"data":{"id":"main"}}}`, `{"type":"sojourn.response","id":"init-rules","status":200,"body":{"id":"main"}}`,
	}, nil},
	"codex": {codex.New(), []string{
		`{"id":"init","result":{"userAgent":"x"}}`, `{"id":"init-thread","result":{"thread":{"id":"main"},"model":"m"}}`,
	}, []string{`{"id":"prompt","result":{"turn":{"id":"t1"}}}`, `{"method":"turn/started","params":{"threadId":"main","turn":{"id":"t1"}}}`}},
	"gemini": {gemini.New(), []string{
		`{"jsonrpc":"2.0","id":"init","result":{"agentCapabilities":{"loadSession":true}}}`, `{"jsonrpc":"2.0","id":"init/session","result":{"sessionId":"main"}}`,
	}, nil},
}

// An interrupt that comes while the agent starts, or right behind the prompt, is written
// once the prompt's own record was read: before it, a translator does not know that
// anything runs.
func TestInterruptRightBehindThePrompt(t *testing.T) {
	t.Parallel()
	for name, k := range openings {
		for when, first := range map[string]bool{"while the agent starts": true, "when it waits": false} {
			t.Run(name+" "+when, func(t *testing.T) {
				t.Parallel()
				p := processOf(t, k.adapter)
				ask := func() {
					p.say("prompt", adapters.Prompt{MessageID: "m", Text: "hi"})
					p.say("interrupt", adapters.Interrupt{})
				}
				p.say("init", adapters.Initialize{})
				if first {
					ask()
				}
				p.step(event.DirSig, "start")
				for _, answer := range k.opening {
					for len(p.unread) > 0 {
						p.read()
					}
					p.step(event.DirOut, answer)
				}
				if !first {
					ask()
				}
				for len(p.unread) > 0 && !slices.Contains(p.written, "interrupt") {
					require.Contains(t, p.written, "prompt")
					p.read()
				}
				for _, answer := range k.prompted {
					require.NotContains(t, p.written, "interrupt")
					p.step(event.DirOut, answer)
				}
				require.Contains(t, p.written, "interrupt", strings.Join(p.unread, "\n"))
				require.Less(t, slices.Index(p.written, "prompt"), slices.Index(p.written, "interrupt"))
			})
		}
	}
}

// A prompt that is sent again under its id may have other settings than the one that was
// written, whose record is read then: the interrupt does not wait for another.
func TestInterruptBehindAPromptThatWasWrittenBefore(t *testing.T) {
	t.Parallel()
	for name, k := range openings {
		p := processOf(t, k.adapter)
		p.say("init", adapters.Initialize{})
		p.step(event.DirSig, "start")
		for _, answer := range k.opening {
			for len(p.unread) > 0 {
				p.read()
			}
			p.step(event.DirOut, answer)
		}
		p.say("prompt", adapters.Prompt{MessageID: "m", Text: "hi"})
		before := p.unread[len(p.unread)-1]
		p.unread = nil
		p.say("interrupt", adapters.Interrupt{})
		p.step(event.DirIn, strings.Replace(before, "hi", "hi, as it was written", 1))
		for _, answer := range k.prompted {
			p.step(event.DirOut, answer)
		}
		require.Contains(t, p.written, "interrupt", name)
	}
}
