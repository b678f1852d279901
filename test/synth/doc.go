// Package synth creates transcripts of Claude Code of any size, and its output for any
// number of turns, for benchmarks.
//
//	n, err := synth.Write(file, 64<<20)
//	records := synth.Records(100)
//
// The lines have the fields, the order of fields and the mix of recorded ones. A turn
// is the prompt (with two queue-operation lines before it and last-prompt after it),
// and three rounds of text, one in four with a thought before it, a tool call and its
// result; then a last text. A result is 0.2 to 12 KB, 3.5 KB on average, and is twice
// in its line, as in recorded ones: as the model gets it, and as the program stores it.
// The output of tools is source code, listings, JSON and prose with a few non-ASCII
// characters, so that there is an escape every 30 bytes. Every 50 turns the listings of
// skills and agents (7 KB) are attached again, as on every resume, and one prompt in 20
// is sent during a turn. A line has 2.4 KB on average and the longest 24 KB; by bytes,
// two thirds are results of tools. All ids are different, and the same size produces
// the same bytes.
package synth
