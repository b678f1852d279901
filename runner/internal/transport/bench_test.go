package transport

import (
	"bytes"
	"testing"
)

// The first hop of a long line: from the pieces in which it is read to one
// string.
func BenchmarkCutLongLine(b *testing.B) {
	line := append(bytes.Repeat([]byte(`{"key":"some words"},`), 64<<20/21), '\n')
	for name, cut := range map[string]func() func([]byte) []string{
		"lines":  func() func([]byte) []string { return (&splitter{}).cut },
		"events": func() func([]byte) []string { return (&sse{}).cut },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				piece := cut()
				piece([]byte("data: "))
				for i := 0; i < len(line); i += readSize {
					piece(line[i:min(i+readSize, len(line))])
				}
			}
		})
	}
}
