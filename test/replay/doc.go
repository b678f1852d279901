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
// The recordings are those of package test/recordings; stories lie in
// testdata.
package replay
