// Package e2e shows that the whole system does what it promises: the real
// servers, workers, runners and agent programs as processes of their own, with
// only the model behind the agents scripted.
//
// The programs are taken from the folder SOJOURN_BIN (default: bin/ of the
// repository; make build fills it), the agents from .agents/ (make agents).
package e2e
