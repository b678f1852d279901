package adaptertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/sandbox"
	"github.com/sojourn-run/sojourn/test/modelsim"
)

// patience bounds every wait of a rig. On a busy machine a program's start may take more
// than a minute, and 64 MiB byte by byte several.
const patience = 4 * time.Minute

// lease is how long an agent survives a test program that has exited.
const lease = 10 * time.Minute

// The rig's sandboxes are used by one host only, so both are constant.
const (
	token = "token"
	epoch = 1
)

// Rig is one session of an agent with its real program. Its methods must be called from
// the test's goroutine.
type Rig struct {
	// Model is the model server behind the agent.
	Model *modelsim.Server
	// Launch is the agent's last or next launch.
	Launch adapters.Launch

	t     *testing.T
	agent Agent
	// earlier is what the session had when the scenario that is played began.
	earlier earlier
	// given are the workspace's files that the profile put there.
	given   map[string]bool
	options Options
	env     []string
	place   *place
	archive *archive
	conn    *runner.Conn
	// followed is closed after the last record of the process.
	followed chan struct{}
	stop     context.CancelFunc
	inputs   int
	// mustRestartToAsk reports whether the present process has to be started anew before it asks.
	mustRestartToAsk bool
	// marked are the processes below the agent before the last prompt.
	marked runner.Mark

	mu       sync.Mutex
	due      turns
	dialogue *adapters.Dialogue
	fold     *reducer.Builder
	events   []event.Event
	// cursor is the index of the first event that Await has not seen.
	cursor int
	// changed is closed, and replaced, at every change.
	changed chan struct{}
	parts   []*part
	// opening is the offset after the opening just written. held reports whether inputs
	// wait until the records up to there have been read.
	opening int64
	held    bool
	// wrote is the offset after the last message written.
	wrote int64
	next  int64
	// shut is closed to let waiting readers continue; nil while they aren't held back.
	shut  chan struct{}
	waits bool
	// torn reports whether the process was killed: what it streamed may be lost, and a
	// file may end within a line.
	torn    bool
	faults  []error
	random  *rand.Rand
	unknown int
}

// part is what one chain of translators, that of one sandbox, read and returned.
type part struct {
	starts  []start
	records []traffic.Record
	// said has the events of each record, written the messages due after it.
	said    [][]event.Event
	written []adapters.Message
	bytes   int
}

// start is the first record of a process, and its launch.
type start struct {
	at     int
	launch adapters.Launch
}

// turns counts the prompts that must end with a turn of their own, and those that a
// kill cancelled.
type turns struct{ asked, cancelled int }

// New creates a session that is not started yet. It skips the test if the agent is not
// installed. Everything is removed at the end of the test.
func New(t *testing.T, a Agent, o Options) *Rig {
	t.Helper()
	program := locate(t, a)
	r := &Rig{
		t: t, agent: a, options: o, archive: newArchive(a.Adapter),
		fold: reducer.NewBuilder(reducer.State{}), changed: make(chan struct{}),
		random: rand.New(rand.NewPCG(1, seed(t.Name()))),
		Model:  modelsim.New(modelsim.Options{Pace: time.Millisecond, Keep: 64}),
	}
	t.Cleanup(r.close)
	url, err := r.Model.Start(context.Background(), "127.0.0.1:0")
	require.NoError(t, err)
	r.env = slices.Concat(modelsim.Environment(url), a.Env, o.Env)
	session := uuid.NewString()
	r.Launch = adapters.Launch{
		Program: program, SessionID: session, Model: a.Model, Permission: o.Permission, SystemPrompt: o.SystemPrompt,
	}
	if r.Launch.Permission == "" {
		r.Launch.Permission = adapters.PermissionAllow
	}
	r.settle(newPlace(t, r.env, false))
	r.furnish()
	return r
}

// seed returns a random seed per test, the same in every run.
func seed(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

func (r *Rig) profile() adapters.Profile {
	if r.options.Profile != nil {
		return *r.options.Profile
	}
	return r.agent.Profile
}

// settle makes a place the session's, with a new translation.
func (r *Rig) settle(p *place) {
	r.place, r.next = p, 0
	r.Launch.Home, r.Launch.Workspace, r.Launch.Env = p.paths.Home, p.paths.Workspace, p.environment()
	r.Launch.Runner, r.Launch.MCPServers = p.paths.Runner, r.profile().Servers(p.paths.Home)
	r.dialogue = nil
}

// furnish writes the profile's files into the sandbox.
func (r *Rig) furnish() {
	r.t.Helper()
	files, err := r.agent.Adapter.ProfileFiles(r.profile(), r.Launch)
	require.NoError(r.t, err)
	if r.agent.Files != nil {
		files = r.agent.Files(r.Launch, files)
	}
	require.NoError(r.t, r.place.write(r.t.Context(), files))
	r.given = map[string]bool{}
	for _, f := range files {
		r.given[f.Path] = f.Base == adapters.InWorkspace
	}
}

// Workspace returns the sandbox's workspace.
func (r *Rig) Workspace() string { return r.place.paths.Workspace }

// Home returns the agent's home.
func (r *Rig) Home() string { return r.place.paths.Home }

// Start starts a process of the agent on its home's current files and writes its
// opening. It returns once the program runs, without waiting for its answer.
func (r *Rig) Start() {
	r.t.Helper()
	r.prepare()
	command, err := r.agent.Adapter.Command(r.Launch)
	require.NoError(r.t, err)
	r.mustRestartToAsk = adapters.MustRestartToAsk(r.agent.Adapter, r.Launch)
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	paths := r.place.paths
	_, err = runner.Start(ctx, r.place.sb, paths.Runner, r.spec(command))
	require.NoError(r.t, err)
	r.conn, err = runner.Attach(ctx, r.place.sb, paths.Runner, paths.Socket, token, epoch)
	require.NoError(r.t, err)
	require.NoError(r.t, r.conn.Lease(ctx, lease))
	r.setTorn(false)
	r.open(ctx)
}

func (r *Rig) setTorn(torn bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.torn = torn
}

// prepare repairs the home and decides whether the session is resumed.
func (r *Rig) prepare() {
	r.t.Helper()
	a := r.agent.Adapter
	r.Launch.NativeID, r.Launch.Resume = a.NativeID(r.Launch.SessionID, 1), false
	transcripts, err := a.Transcripts(r.place.home(), r.Launch)
	require.NoError(r.t, err)
	torn, err := adapters.WholeLines(r.place.home(), transcripts)
	require.NoError(r.t, err)
	require.NoError(r.t, r.place.repair(r.t.Context(), torn))
	if c, ok := a.(adapters.Completer); ok {
		files, err := c.Complete(r.place.home(), r.Launch)
		require.NoError(r.t, err)
		require.NoError(r.t, r.place.repair(r.t.Context(), files))
	}
	found, err := a.Prepare(r.place.home(), r.Launch)
	require.NoError(r.t, err)
	require.NoError(r.t, r.place.moveFiles(found.Move))
	require.NoError(r.t, r.place.repair(r.t.Context(), found.Write))
	if found.NativeID != "" {
		r.Launch.NativeID, r.Launch.Resume, r.Launch.Prompts = found.NativeID, true, found.Prompts
	}
	if found.Note != "" {
		r.t.Logf("prepared: %s", found.Note)
	}
}

func (r *Rig) spec(c adapters.Command) runner.StartSpec {
	var own []string
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		own = append(own, name+"="+c.Env[name])
	}
	paths := r.place.paths
	s := runner.StartSpec{
		Epoch: epoch, Token: token, Argv: c.Argv, Env: sandbox.MergeEnv(r.place.env, own), Dir: c.Dir, Helpers: c.Helpers,
		Control: paths.Control, Socket: paths.Socket,
		Isolation: runner.IsolationSpec{Hide: paths.Hide, Keep: paths.Keep, KeepReadOnly: paths.KeepReadOnly, Network: paths.Network},
	}
	if w, ok := r.agent.Adapter.(adapters.Wrapped); ok {
		s.Isolation.Programs = []string{w.ProgramFile(r.Launch.Program)}
	}
	if h := c.HTTP; h != nil {
		s.Transport = runner.TransportHTTP
		s.HTTP = runner.HTTPSpec{Ready: h.Ready, Events: h.Events, User: h.User, PasswordEnv: h.PasswordEnv}
	}
	return s
}

// open writes the opening. Other messages are held until the records before its end
// have been read.
func (r *Rig) open(ctx context.Context) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var state json.RawMessage
	if r.dialogue != nil {
		var err error
		state, err = r.dialogue.State()
		require.NoError(r.t, err)
	} else {
		r.parts = append(r.parts, &part{})
	}
	now := r.parts[len(r.parts)-1]
	now.starts = append(now.starts, start{len(now.records), r.Launch})
	tr, err := r.agent.Adapter.Translator(r.Launch, state)
	require.NoError(r.t, err)
	r.wrote, r.held = 0, true
	r.dialogue = adapters.NewDialogue(tr, r.write)
	id := fmt.Sprintf("initialize-%d", r.conn.Attached().RestartCount)
	require.NoError(r.t, r.dialogue.Say(ctx, id, adapters.Initialize{}))
	r.opening = r.wrote
	r.dialogue.Hold()
	r.followed = make(chan struct{})
	go r.follow(ctx, r.conn, r.next, r.followed)
}

// write writes a message to the process. A repeated id is an error: the runner takes it
// for a duplicate and doesn't pass it to the agent.
func (r *Rig) write(ctx context.Context, m adapters.Message) error {
	ack, err := r.conn.Input(ctx, m.ID, m.Data)
	if err == nil && ack.Duplicate {
		return fmt.Errorf("the id %q was used before", m.ID)
	}
	r.wrote = ack.Next
	now := r.parts[len(r.parts)-1]
	now.written = append(now.written, m)
	if errors.Is(err, runner.ErrExited) || errors.Is(err, runner.ErrStdinClosed) {
		return nil // the records have its end, or will
	}
	return err
}

// Stop ends the process as a host does, and waits until all its records are read.
func (r *Rig) Stop() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	_, err := r.conn.Stop(ctx, runner.Grace{})
	require.NoError(r.t, err)
	r.ended()
}

// Kill ends the process at once by SIGKILL, whatever it is doing. The running turn gets
// no end.
func (r *Rig) Kill() {
	r.t.Helper()
	r.setTorn(true)
	r.Signal(syscall.SIGKILL)
	r.ended()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ends() < r.due.asked-r.due.cancelled {
		r.due.cancelled++
	}
}

// Signal sends the agent's process a signal.
func (r *Rig) Signal(s syscall.Signal) {
	r.t.Helper()
	require.NoError(r.t, r.conn.Signal(r.t.Context(), s))
}

// ended waits for the last record of a process that ends.
func (r *Rig) ended() {
	r.t.Helper()
	select {
	case <-r.followed:
	case <-time.After(patience):
		require.FailNow(r.t, "the records of an agent that was ended did not end")
	}
	require.NoError(r.t, r.conn.Close())
	r.stop()
}

// Restart ends the process and starts another one in the same sandbox.
func (r *Rig) Restart() {
	r.t.Helper()
	if r.alive() {
		r.Stop()
	}
	r.Start()
}

// Move ends the process, if it is alive, and starts another one at another place, with
// another home and workspace, from the archive. The old place is removed.
func (r *Rig) Move() {
	r.t.Helper()
	if r.alive() {
		r.Stop()
	}
	r.sync()
	before := r.place
	r.settle(newPlace(r.t, r.env, true))
	files, err := r.archive.restore(r.agent.Adapter, r.Launch)
	require.NoError(r.t, err)
	require.NoError(r.t, r.place.write(r.t.Context(), files))
	require.NoError(r.t, r.place.copyWorkspace(r.t.Context(), before))
	require.NoError(r.t, before.remove())
	r.furnish()
	r.Start()
}

// alive reports whether the process has not been ended.
func (r *Rig) alive() bool {
	if r.followed == nil {
		return false
	}
	select {
	case <-r.followed:
		return false
	default:
		return true
	}
}

// sync archives the transcripts.
func (r *Rig) sync() {
	r.t.Helper()
	home := r.place.home()
	found, err := r.agent.Adapter.Transcripts(home, r.Launch)
	require.NoError(r.t, err)
	require.NoError(r.t, r.archive.sync(home, found))
}

// close ends the process and removes the place.
func (r *Rig) close() {
	r.openGate()
	if r.stop != nil {
		r.stop()
		<-r.followed
		_ = r.conn.Close() // it may be closed already
	}
	r.Model.Close()
	if r.place != nil {
		if err := r.place.remove(); err != nil {
			r.t.Errorf("remove the sandbox: %v", err)
		}
	}
}
