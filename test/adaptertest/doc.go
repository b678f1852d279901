// Package adaptertest has the tests that every adapter must pass with the agent's real
// program, and the [Rig] that they run on.
//
//	func TestConformance(t *testing.T) {
//		adaptertest.Run(t, adaptertest.Agent{
//			Adapter: New(),
//			Missing: map[string]string{"steer": "a message waits for the end of the turn"},
//		})
//	}
//
//	func TestParityFresh(t *testing.T) { adaptertest.Fresh(t, agent) }
//
// A Rig is one session as a host runs it: a local sandbox with a home and a workspace,
// the profile's files in them, the program under the real runner, its records through
// an [adapters.Dialogue], the events folded, and the transcripts archived as they grow.
// The model behind the program is the scripted one of test/modelsim; the prompts are
// its scripts.
//
//	r := adaptertest.New(t, agent, adaptertest.Options{})
//	r.Start()
//	r.Ask("SAY hello")
//	r.Move() // to another home and workspace, from what was archived
//	r.Ask("RECALL")
//	r.Finish() // parity, determinism, one idle per prompt
//
// An adapter's own tests may use a Rig for what the suite doesn't cover: Say any input,
// Await any event, HoldBack the reader, Kill the agent, compare Live and Restored. If
// SOJOURN_KEEP names a folder, the records and the home of a session whose two sides
// differ are copied there.
//
// The adapter locates the program, in .agents/bin of the repository and then in PATH.
// Without it the test is skipped with the adapter's error. The runner is
// SOJOURN_RUNNER_BIN, or is built once per test program.
//
// Some programs take seconds of a processor to start, so most scenarios are played one
// after another in three sessions: in one process, with a person who is asked, and with
// restarts. The first that fails is the last one played there.
//
// Beside each scenario's own assertions the suite asserts: the live conversation equals
// the restored one; the same records produce the same bytes again, also from any state
// in between; unknown records become native events and change nothing; transcripts
// declared to grow only grow; no input's id is used twice; and every prompt ends once.
// A scenario that an agent can't do is skipped by name with the reason.
package adaptertest
