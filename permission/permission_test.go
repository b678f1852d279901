package permission

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
)

func request(tool, input string) event.PermissionRequested {
	return event.PermissionRequested{RequestID: "r1", ToolName: tool, Input: json.RawMessage(input)}
}

func command(tool, line string) event.PermissionRequested {
	input, _ := json.Marshal(map[string]any{"command": line, "description": "what it is for"})
	return request(tool, string(input))
}

func TestRules(t *testing.T) {
	t.Parallel()
	rules := Rules{
		{Tool: "bash", Match: "git push*", Answer: Deny, Reason: "people push"},
		{Tool: "bash", Match: "*curl *", Answer: Ask},
		{Tool: "bash", Match: "git *", Answer: Allow},
		{Tool: "bash", Match: "npm test", Answer: Allow},
		{Tool: "write", Match: "/work/src/*", Answer: Allow},
		{Tool: "g*", Match: "/work/src/*", Answer: Allow},
		{Tool: "webfetch", Match: "https://example.org/docs/*", Answer: Allow},
		{Tool: "*", Match: "*.env", Answer: Deny},
		{Tool: "mcp__*", Answer: Allow},
	}
	require.NoError(t, rules.Validate())
	cases := []struct {
		req  event.PermissionRequested
		want Answer
	}{
		{command("Bash", "git status"), Allow},
		{command("bash", "git push origin main"), Deny},
		{command("bash", "cd x && git push"), Deny},
		{command("bash", "git status; git push"), Deny},
		{command("bash", "git status && git diff | git apply --check"), Allow},
		{command("bash", "npm test"), Allow},
		{command("bash", "npm test; rm -rf /"), "standing"},
		{command("bash", "git status\nrm -rf /"), "standing"},
		{command("bash", "git log $(rm -rf /)"), "standing"},
		{command("bash", "git log `rm -rf /`"), "standing"},
		{command("bash", "git diff > /etc/passwd"), "standing"},
		{command("bash", "git -C ../../other status"), "standing"},
		{command("bash", "git fetch & curl example.org"), Ask},
		{request("bash", `{"command":["git","status"]}`), Allow},
		{request("bash", `{"command":["git","push"]}`), Deny},
		{request("bash", `{"note":"git status"}`), "standing"},
		{request("Write", `{"file_path":"/work/src/a.go","content":"text"}`), Allow},
		{request("Write", `{"file_path":"/work/src/../../etc/passwd","content":"text"}`), "standing"},
		{request("Write", `{"file_path":"/work/src/a.go","locations":[{"path":"/etc/passwd"}]}`), "standing"},
		{request("Write", `{"file_path":"/work/other","content":"/work/src/a"}`), "standing"},
		{request("Write", `{"changes":[{"path":"/work/src/a","kind":"update","movePath":"/etc/passwd"}]}`), "standing"},
		{request("Write", `{"changes":[{"path":"/work/src/a","kind":"update","movePath":"/work/src/b"}]}`), Allow},
		{request("Write", `{"path":"/work/src/a","move_path":"/etc/passwd"}`), "standing"},
		{request("Write", `{"source":"/etc/passwd","destination":"/work/src/a"}`), "standing"},
		{request("Write", `{"source":"/work/src/b","destination":"/etc/passwd"}`), "standing"},
		{request("Write", `{"source":"agent","path":"/work/src/a"}`), Allow},
		{request("Write", `{"paths":["/work/src/a","/etc/passwd"]}`), "standing"},
		{request("Glob", `{"path":"/work/src/","pattern":"**/*.go"}`), Allow},
		{request("Glob", `{"path":"/work/src/","pattern":"../../etc/*"}`), "standing"},
		{request("Glob", `{"path":"/work/src/","pattern":"{..,x}/../*"}`), "standing"},
		{request("Glob", `{"path":"/work/src/","pattern":"/etc/*"}`), "standing"},
		{request("glob", `{"pattern":"/work/src/*.go"}`), Allow},
		{request("Grep", `{"path":"/work/src/","pattern":"a(b|c)..$"}`), Allow},
		{command("bash", `git -C src/.\./ status`), "standing"},
		{command("bash", `git -C src/".". status`), "standing"},
		{command("bash", `git -C src/{..,x}/ status`), "standing"},
		{command("bash", `git -C src/.?/ status`), "standing"},
		{command("bash", `git show HEAD..main`), Allow},
		{request("WebFetch", `{"url":"https://example.org/docs/a%20b"}`), Allow},
		{request("WebFetch", `{"url":"https://example.org/docs/../admin"}`), "standing"},
		{request("WebFetch", `{"url":"https://example.org/docs/..?q=1"}`), "standing"},
		{request("WebFetch", `{"url":"https://example.org/docs/%2e%2E/admin"}`), "standing"},
		{request("WebFetch", `{"url":"https://example.org/docs/%252e.%2fadmin"}`), "standing"},
		{request("WebFetch", `{"url":"https://example.org/docs/%zz/%2e%2e/admin"}`), "standing"},
		{request("Read", `{"file_path":"/work/.env"}`), Deny},
		{request("edit", `{"patterns":["/work/x/.env"]}`), Deny},
		{request("mcp__issues__close", `{}`), Allow},
		{request("mcp__issues__close", `no JSON`), Allow},
		{request("bash", ``), "standing"},
	}
	for _, c := range cases {
		got, reason := rules.Answer(c.req, "standing")
		assert.Equal(t, c.want, got, "%s %s", c.req.ToolName, c.req.Input)
		require.NotEmpty(t, reason)
	}
	for _, line := range []string{
		"git  push origin main", "git\tpush", `git "push"`, `git 'pu'sh`, `git pu\sh`, `"git" push`, `git $'push'`, "git \\\npush", "# x \\\ngit  push",
		"for b in x; do git push; done", "if ! git push; then", "while git push; do ls; done", "{ git push; }", "(git push)", "$(git push)",
		"`git push`", `git commit -m "$(git  push)"`, "f() { git push; }", "case x in x) git push;; esac", "git {push,}", "{git,push}", "git${IFS}push",
		"F=1 git push", `F="1" G+=2 git push`, "F=1  sudo -u root git push", "env -i F=1 git push", "nohup time -p git push", "exec git push",
		"command git push", "timeout 5 git push", "ls | xargs -n1 git push", `bash -lc "cd x && git  push"`, "/usr/bin/git push", "> /dev/null git push",
		strings.Repeat("sudo ", 10_000) + "git push", "2>&1 git push", `F=1 git push "a;b"`,
	} {
		got, _ := rules.Answer(command("bash", line), Allow)
		require.Equal(t, Deny, got, "%s", line)
	}
	got, _ := rules.Answer(request("bash", `{"command":["bash","-c","git push"]}`), Allow)
	require.Equal(t, Deny, got)
	got, _ = rules.Answer(command("bash", "echo git push"), "standing")
	require.Equal(t, Answer("standing"), got, "the rule is about the command git")
	quoted := Rules{{Tool: "*", Match: `git commit -m "wip*`, Answer: Ask}}
	got, _ = quoted.Answer(command("bash", "git  commit -m 'wip: x'"), Allow)
	require.Equal(t, Ask, got)
	_, reason := rules.Answer(command("bash", "git push"), Allow)
	require.Equal(t, "people push", reason)
}

// A question is a person's: no rule answers it, and an allowance would be an answer that says
// nothing.
func TestQuestions(t *testing.T) {
	t.Parallel()
	question := event.PermissionRequested{ToolName: "mcp__ask", Questions: json.RawMessage(`[{}]`)}
	rules := Rules{{Tool: "*", Answer: Allow}}
	for standing, want := range map[Answer]Answer{Allow: Ask, Ask: Ask, "": Ask, Deny: Deny} {
		got, _ := rules.Answer(question, standing)
		require.Equal(t, want, got, standing)
	}
	_, reason := rules.Answer(question, Deny)
	require.Equal(t, "Nobody answers questions in this session.", reason)
	at := time.Unix(100, 0)
	answer, reason, late := Deadline{AfterMS: 1000, Answer: Allow}.Passed(question, at, at.Add(time.Second))
	require.True(t, late)
	require.Equal(t, Deny, answer)
	require.Equal(t, "Nobody answered within 1s.", reason)
}

func TestValidate(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, Rules{{Answer: Allow}}.Validate(), "permissions[0].tool is empty")
	require.ErrorContains(t, Rules{{Tool: "a", Answer: Deny}, {Tool: "b", Answer: "maybe"}}.Validate(), `permissions[1].answer is "maybe"`)
	require.Equal(t, Ask, Policy{Standing: Allow, Rules: Rules{{Tool: "a", Answer: Deny}}}.Mode(), "else the agent would not ask")
	require.Equal(t, Allow, Policy{Standing: Allow}.Mode())
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	at := time.Unix(100, 0)
	_, _, late := Deadline{}.Passed(request("Bash", `{}`), at, at.Add(1000*time.Hour))
	require.False(t, late, "0 has no deadline")
	d := Deadline{AfterMS: 2000}
	_, _, late = d.Passed(request("Bash", `{}`), at, at.Add(1999*time.Millisecond))
	require.False(t, late)
	answer, reason, late := d.Passed(request("Bash", `{}`), at, at.Add(2*time.Second))
	require.True(t, late)
	require.Equal(t, Deny, answer)
	require.Equal(t, "Nobody answered within 2s.", reason)
	answer, _, _ = Deadline{AfterMS: 1, Answer: Allow}.Passed(request("Bash", `{}`), at, at.Add(time.Hour))
	require.Equal(t, Allow, answer)
	require.NoError(t, d.Validate())
	require.ErrorContains(t, Deadline{AfterMS: -1}.Validate(), "permissionDeadline.afterMs is -1")
	require.ErrorContains(t, Deadline{AfterMS: MaxMS + 1, Answer: Allow}.Validate(), "permissionDeadline.afterMs is", "else it is over at once")
	require.NoError(t, Deadline{AfterMS: MaxMS}.Validate())
	require.ErrorContains(t, Deadline{Answer: Ask}.Validate(), `permissionDeadline.answer is "ask"`)
}

// FuzzAllow: no line that a rule for one command allows runs another command.
func FuzzAllow(f *testing.F) {
	for _, line := range []string{"git status", "git status; rm x", "git \\\n rm", "git 'a;rm x'", "git $(rm x)", "git\trm", "git <(rm x)", "git&rm"} {
		f.Add(line)
	}
	rules := Rules{{Tool: "bash", Match: "git *", Answer: Allow}}
	f.Fuzz(func(t *testing.T, line string) {
		if got, _ := rules.Answer(command("bash", line), Deny); got != Allow {
			return
		}
		require.False(t, strings.ContainsAny(line, "`<>$(){}"), line)
		for _, part := range commands(line) {
			require.True(t, strings.HasPrefix(part, "git "), line)
		}
	})
}

// FuzzDeny: no inserted quotes, backslashes and blanks let a denied line run.
func FuzzDeny(f *testing.F) {
	for _, line := range []string{"git push", "ls; git push origin", "{ F=1 sudo git push; }", "git push\nls", "> x git push & ls"} {
		f.Add(line, []byte{1, 2, 3, 4, 0, 5, 1, 3, 2})
	}
	rules := Rules{{Tool: "bash", Match: "git push*", Answer: Deny}, {Tool: "bash", Match: "*", Answer: Allow}}
	f.Fuzz(func(t *testing.T, line string, how []byte) {
		if got, _ := rules.Answer(command("bash", line), Allow); got != Deny || strings.ContainsAny(line, "\"'\\$") {
			return
		}
		got, _ := rules.Answer(command("bash", respell(line, how)), Allow)
		require.Equal(t, Deny, got, "%q as %q", line, respell(line, how))
	})
}

// respell inserts quotes and backslashes between the characters of a line, and blanks beside its
// blanks.
func respell(line string, how []byte) string {
	var out strings.Builder
	for i, r := range []rune(line) {
		if len(how) > 0 {
			switch k := how[i%len(how)]; {
			case k%6 == 1 && r == ' ':
				out.WriteString(" \t")
			case k%6 == 2:
				out.WriteString("''")
			case k%6 == 3:
				out.WriteByte('"')
			case k%6 == 4 && r != '\n':
				out.WriteByte('\\')
			}
		}
		out.WriteRune(r)
	}
	return out.String()
}

func FuzzLike(f *testing.F) {
	f.Add("a*b", "axxb")
	f.Add("a*a", "a")
	f.Add("*x*", "yxz")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		require.Equal(t, naive(pattern, text), like(pattern, text), "%q %q", pattern, text)
	})
}

// naive implements like by trying all lengths.
func naive(pattern, text string) bool {
	if len(pattern) > 12 || len(text) > 40 {
		return like(pattern, text)
	}
	if pattern == "" {
		return text == ""
	}
	if pattern[0] != '*' {
		return text != "" && pattern[0] == text[0] && naive(pattern[1:], text[1:])
	}
	for i := 0; i <= len(text); i++ {
		if naive(pattern[1:], text[i:]) {
			return true
		}
	}
	return false
}
