package codex

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/test/replay"
)

// A rollout of any length is inspected before a start, and repaired, in little
// memory.
func TestMemoryOfPrepare(t *testing.T) {
	const id = "11111111-2222-5333-8444-555555555555"
	file := sessionsDir + "/2026/11/21/rollout-2026-11-21T05-00-00-" + id + rolloutSuffix
	line := strings.Repeat("x", 1023) + "\n"
	home := &replay.Endless{Name: file, First: line, Line: line, Lines: 300 << 10, Last: `{"timestamp":"2026`}
	found := replay.PreparesInBoundedMemory(t, New(), adapters.Launch{NativeID: id}, home)
	whole := home.Size() - int64(len(home.Last))
	require.Equal(t, []adapters.Repair{
		{Path: file + ".torn", From: file, Begin: whole, End: home.Size()},
		{Path: file, From: file, End: whole},
	}, found.Write)
}
