package archive

import (
	"fmt"
	"testing"

	"github.com/sojourn-run/sojourn/test/teststack"
)

// BenchmarkAppend is the cost of a 1 KiB append to a transcript after so many of
// them. The transcript is set up by its merged segments, which are the binary
// digits of their number.
func BenchmarkAppend(b *testing.B) {
	for _, had := range []int{10, 10_000} {
		b.Run(fmt.Sprint(had), func(b *testing.B) {
			a := open(b)
			w := &teststack.Wire{}
			c := another(b, a, w)
			epoch, at := take(b, c, "s1"), int64(0)
			for digit := 1 << 20; digit > 0; digit >>= 1 {
				if had&digit != 0 {
					at = mustAppend(b, c, "s1", epoch, at, noise(1, digit<<10)).Size
				}
			}
			piece, before := noise(2, 1<<10), w.Count()
			for b.Loop() {
				at = mustAppend(b, c, "s1", epoch, at, piece).Size
			}
			b.ReportMetric(float64(w.Count()-before)/float64(b.N), "requests/op")
		})
	}
}

// BenchmarkRead streams a transcript of 32 MiB.
func BenchmarkRead(b *testing.B) {
	a := open(b)
	epoch := take(b, a, "s1")
	mustAppend(b, a, "s1", epoch, 0, noise(1, 32<<20))
	b.SetBytes(32 << 20)
	for b.Loop() {
		mustRead(b, a, "s1", "main")
	}
}
