package transport

import (
	"bytes"
	"testing"
)

// The first step of a long line: from the pieces in which it is read to one
// string.
func BenchmarkCutLongLine(b *testing.B) {
	whole := append(bytes.Repeat([]byte(`{"key":"some words"},`), 64<<20/21), '\n')
	for name, cut := range map[string]func() func([]byte) []line{
		"lines":  func() func([]byte) []line { return (&splitter{max: 1 << 30}).cut },
		"events": func() func([]byte) []line { return (&sse{lines: splitter{max: 1 << 30}}).cut },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(whole)))
			b.ReportAllocs()
			for b.Loop() {
				piece := cut()
				piece([]byte("data: "))
				for i := 0; i < len(whole); i += readSize {
					piece(whole[i:min(i+readSize, len(whole))])
				}
			}
		})
	}
}
