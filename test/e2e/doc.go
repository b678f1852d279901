// Package e2e tests the whole system: the real servers, workers, runners and agent
// programs as separate processes. Only the model behind the agents is scripted.
//
// The programs are taken from the folder SOJOURN_BIN (default: bin/ of the
// repository; make build fills it), the agents from .agents/ (make agents).
package e2e
