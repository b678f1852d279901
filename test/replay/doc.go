// Package replay has the adapter tests that are the same for all agents: it finds
// recordings of real exchanges, plays them through an adapter, and checks what must
// hold for every agent. Only tests import it. The suite with the real programs is
// package adaptertest.
//
// An adapter's tests describe their agent once,
//
//	var recorded = replay.Agent{
//		Adapter:     New(),
//		Runs:        func(t testing.TB) []replay.Run { return replay.RunsOf(processes(t)) },
//		Transcripts: func(t testing.TB) []replay.Transcript { return replay.TranscriptsOf(transcripts(t)) },
//	}
//
// and each test is one line:
//
//	func TestSplitAnywhere(t *testing.T) { recorded.SplitAnywhere(t) }
//	func TestStories(t *testing.T)       { recorded.Stories(t) }
//
// The recordings are those of package test/recordings; stories are in testdata.
package replay
