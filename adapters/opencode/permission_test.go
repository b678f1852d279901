package opencode

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/test/adaptertest"
	"github.com/sojourn-run/sojourn/test/skip"
)

// A process has the rules of its start, whatever its home's files were written with.
func TestProcessHasTheRulesOfItsStart(t *testing.T) {
	t.Parallel()
	for p, action := range map[adapters.Permission]string{"": "allow", adapters.PermissionAllow: "allow", adapters.PermissionAsk: "ask", adapters.PermissionDeny: "ask"} {
		l := launch()
		l.Permission = p
		c, err := New().Command(l)
		require.NoError(t, err)
		text := c.Env["OPENCODE_PERMISSION"]
		require.True(t, strings.HasPrefix(text, `{"*":"`+action+`"`), "the last that matches applies: %s", text)
		var rules map[string]string
		require.NoError(t, json.Unmarshal([]byte(text), &rules))
		for _, tool := range []string{"bash", "edit", "webfetch", "external_directory", "doom_loop"} {
			require.Equal(t, action, rules[tool], tool)
		}
		require.Equal(t, "allow", rules["task"])
		require.Equal(t, p.Asks(), c.Env["OPENCODE_DISABLE_PROJECT_CONFIG"] == "1", "the workspace's own rules go before them")
	}
	l := launch()
	l.Permission = "perhaps"
	_, err := New().Command(l)
	require.ErrorContains(t, err, "want allow, ask or deny")
}

// Rules that an earlier process stored with the session are overruled before a prompt is
// written; the launch's own are not stored again.
func TestStoredRulesAreOverruled(t *testing.T) {
	t.Parallel()
	asking, err := permissionRules(adapters.PermissionAsk)
	require.NoError(t, err)
	own, err := json.Marshal(asking)
	require.NoError(t, err)
	for stored, overruled := range map[string]bool{
		`{}`:                false,
		`{"permission":[]}`: false,
		`{"permission":[{"permission":"*","pattern":"*","action":"allow"}]}`:                                         true,
		`{"permission":` + string(own) + `}`:                                                                         false,
		`{"permission":[` + strings.Trim(string(own), "[]") + `,{"permission":"*","pattern":"*","action":"allow"}]}`: true,
		`{"permission":{}}`: true,
	} {
		l := launch()
		l.Permission = adapters.PermissionAsk
		tr, err := newTranslator(l, nil)
		require.NoError(t, err)
		k := &talk{tr, t, l.NativeID}
		k.send("initialize-1", adapters.Initialize{})
		k.receive(`{"type":"sojourn.response","id":"initialize-1","status":200,"body":{}}`)
		read := k.answerDue(stored)
		require.Equal(t, "GET", read["method"])
		require.Equal(t, "/session/"+k.main, read["path"])
		if overruled {
			_, err = k.Encode("prompt-1", adapters.Prompt{Text: "x"})
			require.ErrorIs(t, err, adapters.ErrNotYet, stored)
			set := k.answerDue(`{}`)
			require.Equal(t, "PATCH", set["method"])
			data, err := json.Marshal(set["body"])
			require.NoError(t, err)
			require.JSONEq(t, `{"permission":`+string(own)+`}`, string(data))
		}
		require.Empty(t, k.Due(), stored)
		_, err = k.Encode("prompt-1", adapters.Prompt{Text: "x"})
		require.NoError(t, err, stored)
	}
}

// A session whose stored rules can't be overruled takes no prompt.
func TestOpeningFailsWithItsRules(t *testing.T) {
	t.Parallel()
	tr, err := newTranslator(launch(), nil)
	require.NoError(t, err)
	k := &talk{tr, t, launch().NativeID}
	k.send("initialize-1", adapters.Initialize{})
	k.receive(`{"type":"sojourn.response","id":"initialize-1","status":200,"body":{}}`)
	due := k.Due()
	require.Len(t, due, 1)
	k.receive(`{"type":"sojourn.response","id":"%s","status":500,"body":"database is locked"}`, due[0].ID)
	_, err = k.Encode("prompt-1", adapters.Prompt{Text: "x"})
	require.ErrorIs(t, err, adapters.ErrRefused)
	require.ErrorContains(t, err, "database is locked")
}

// A process that was started to allow everything is started anew to ask: it would ask
// nothing in subagents. One that asks can be told to allow, and to ask again.
func TestAllowingProcessCannotAsk(t *testing.T) {
	t.Parallel()
	for _, started := range []adapters.Permission{adapters.PermissionAllow, adapters.PermissionAsk} {
		l := launch()
		l.Permission = started
		tr, err := newTranslator(l, nil)
		require.NoError(t, err)
		k := &talk{tr, t, l.NativeID}
		encodes := func(p adapters.Permission) error {
			_, err := k.Encode("permission-1", adapters.SetPermission{Permission: p})
			return err
		}
		if started == adapters.PermissionAllow {
			require.ErrorIs(t, encodes(adapters.PermissionAsk), adapters.ErrUnsupported, "also while it opens")
		}
		k.send("initialize-1", adapters.Initialize{})
		k.receive(`{"type":"sojourn.response","id":"initialize-1","status":200,"body":{}}`)
		k.answerDue(`{}`)
		// The next worker's launch has the session's present mode.
		state, err := k.State()
		require.NoError(t, err)
		l.Permission = adapters.PermissionDeny
		k.translator, err = newTranslator(l, state)
		require.NoError(t, err)
		require.NoError(t, encodes(adapters.PermissionAllow))
		for _, p := range []adapters.Permission{adapters.PermissionAsk, adapters.PermissionDeny} {
			if started == adapters.PermissionAllow {
				require.ErrorIs(t, encodes(p), adapters.ErrUnsupported)
			} else {
				require.NoError(t, encodes(p))
			}
		}
		k.Step(traffic.Record{Dir: event.DirSig, Line: "exit 0"})
		require.ErrorIs(t, encodes(adapters.PermissionAsk), adapters.ErrNotYet, "the next process is started with it")
	}
}

// The rules of a process hold in subagents, also where its home was written with others
// and an earlier process stored others with the session.
func TestRulesHoldInSubagentsAfterRestart(t *testing.T) {
	skip.InShort(t, "of what is particular to the program, its conformance suite")
	t.Parallel()
	r := adaptertest.New(t, conforming(t), adaptertest.Options{Permission: adapters.PermissionAsk})
	r.Start()
	r.SetPermission(adapters.PermissionAllow)
	require.Nil(t, r.Ask("TOOL bash: touch one THEN SAY done").Error)
	r.Launch.Permission = adapters.PermissionAsk
	r.Restart()
	for _, script := range []string{
		"TOOL bash: touch two THEN SAY done",
		"SUBAGENT TOOL bash: touch two ANDTHEN SAY sub is done THEN SAY done",
	} {
		r.Send(script)
		asked := r.AwaitPermission()
		require.NoFileExists(t, r.Workspace()+"/two")
		r.Answer(asked, false, "not now", nil)
		require.Nil(t, r.AwaitIdle().Error)
		require.NoFileExists(t, r.Workspace()+"/two")
	}
	r.Finish()
}
