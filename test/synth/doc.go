// Package synth makes transcripts of Claude Code of any size, and what it prints
// in any number of turns, for benchmarks.
//
//	n, err := synth.Write(file, 64<<20)
//	records := synth.Records(100)
//
// The lines have the fields, the order of fields and the mix of recorded ones.
// A turn is the prompt (with its two queue-operation lines in front and
// last-prompt behind), and three rounds of text, one in four with a thought in
// front, a tool call and its result; then a last text. A result is 0.2 to 12 KB,
// 3.5 KB in the mean, and stands twice in its line, as in recorded ones: as the
// model sees it, and as the program keeps it. What tools print is source code,
// listings, JSON and prose with a little that is not ASCII, so that an escape
// comes every 30 bytes. Every 50 turns the listings of skills and agents (7 KB)
// are attached anew, as on every resume, and one prompt in 20 is handed over
// while a turn runs. A line has 2.4 KB in the mean and the longest 24 KB; by
// bytes, two thirds are results of tools. All ids are different, and the
// same size gives the same bytes.
package synth
