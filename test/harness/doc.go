// Package harness starts the programs of this repository as separate processes, for
// end-to-end tests and benchmarks: the servers, workers on data folders, and the
// scripted model behind the agents.
//
//	stack, err := harness.Start(ctx, harness.Options{Root: "../.."})
//	defer stack.Close()
//	w, err := stack.StartWorker(ctx, filepath.Join(stack.Dir, "host"))
//	h, err := stack.Client.Create(ctx, "", session.Options{Agent: "claude"})
//
// The programs are taken from the folder SOJOURN_BIN (default: bin/ of the repository;
// make build fills it), the agents from .agents/ (make agents). Close ends everything
// that a stack started. EndAgents ends agents that a worker left warm.
package harness
