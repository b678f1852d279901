package wire

import "math/bits"

// ones has every byte 1, highs the highest bit of every byte.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special returns the index of the first byte from i on that a JSON string can't
// hold unescaped, or the length: control characters, quotes and backslashes.
// Lines may be huge, so it tests eight bytes at once.
func special[T string | []byte](s T, i int) int {
	for ; i+8 <= len(s); i += 8 {
		x := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		control := (x - ' '*ones) &^ x
		quote := ((x ^ '"'*ones) - ones) &^ (x ^ '"'*ones)
		slash := ((x ^ '\\'*ones) - ones) &^ (x ^ '\\'*ones)
		// False positives are only behind a true one.
		if found := (control | quote | slash) & highs; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(s) && s[i] >= ' ' && s[i] != '"' && s[i] != '\\' {
		i++
	}
	return i
}
