// Package replay is the part of the adapters' own tests that is the same for
// all of them: it finds recordings of real exchanges, plays them through an
// adapter, and demands what must hold for every agent. Only tests import it. The
// suite with the real programs is package adaptertest.
//
// An adapter's tests name what is theirs once,
//
//	var recorded = replay.Agent{
//		Adapter:     New(),
//		Runs:        func(t testing.TB) []replay.Run { return replay.RunsOf(processes(t)) },
//		Transcripts: func(t testing.TB) []replay.Transcript { return replay.TranscriptsOf(transcripts(t)) },
//	}
//
// and each test is a line:
//
//	func TestSplitAnywhere(t *testing.T) { recorded.SplitAnywhere(t) }
//	func TestStories(t *testing.T)       { recorded.Stories(t) }
//
// Recordings lie below SOJOURN_SHARED, or in the folder shared beside the
// repository: agents/recordings/<agent>/<recording>/<prefix>timed.jsonl. Tests of
// recordings are skipped where there are none; stories lie in testdata and are
// always told.
package replay
