package proc

import "testing"

// If a process ends while its variables are read, only a part is read, and a part of
// one sandbox's name may be another's.
func TestSettingThatWasNotReadWhole(t *testing.T) {
	const env = "HOME=/h\x00SOJOURN_SANDBOX=/data/s-e12\x00PATH=/bin\x00"
	for n := range env {
		if hasSetting([]byte(env[:n]), "SOJOURN_SANDBOX=/data/s-e1") {
			t.Errorf("%q is taken for the sandbox of epoch 1", env[:n])
		}
	}
	if !hasSetting([]byte(env), "SOJOURN_SANDBOX=/data/s-e12") {
		t.Error("the whole is not recognized")
	}
}
