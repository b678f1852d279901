package lines

import "github.com/sojourn-run/sojourn/adapters"

// Tail is how a transcript ends. A program that is killed while it writes leaves the pages
// that were written, so its last line may be cut anywhere. The next process would write
// directly behind it, and its first line would be lost too.
type Tail struct {
	// Whole is where the last line that has its end ends, and Size the size of the file,
	// both in bytes.
	Whole, Size int64
}

// TailOf reads how a transcript of a home ends, and passes on its complete lines, without
// the empty ones. Each is valid until the next.
func TailOf(agent string, home adapters.Home, path string, take func(line []byte)) (Tail, error) {
	in, err := OpenAt(agent, home, path, Mark{})
	if err != nil {
		return Tail{}, err
	}
	defer in.Close()
	err = in.Followed(take)
	return in.Tail(), err
}

// Tail returns the end of the transcript once all of it was read.
func (r *Reader) Tail() Tail { return Tail{r.mark.Offset, r.size} }

// Torn reports whether the last line has no end.
func (t Tail) Torn() bool { return t.Whole != t.Size }

// TornSuffix is the end of the name of a file that has a torn line, beside the transcript
// that it is of.
const TornSuffix = ".torn"

// TornNote says that a torn line was set aside.
const TornNote = "the agent was killed while it wrote its transcript: the last line, half written, was set aside"

// Continued returns the files that add something to a transcript; a torn line is moved to
// a file of its own first. It returns none if there is nothing to write.
func (t Tail) Continued(file string, add []byte) (files []adapters.Repair) {
	if t.Torn() {
		files = append(files, adapters.Repair{Path: file + TornSuffix, From: file, Begin: t.Whole, End: t.Size})
	}
	if t.Torn() || len(add) > 0 {
		files = append(files, adapters.Repair{Path: file, From: file, End: t.Whole, Add: add})
	}
	return files
}
