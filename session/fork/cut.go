package fork

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
)

// Cut returns the transcripts that have the kept blocks, each as far as it is needed, and adds to
// the kept ones what the same lines have beside them: an agent may write down what it says before
// the end of a call that was before. It fails with [adapters.ErrUnsupported] for a transcript that
// can't be cut.
func Cut(agent adapters.Adapter, sources []adapters.Source, k Kept) ([]adapters.Source, error) {
	if k.Whole {
		return sources, nil
	}
	mains, others := split(sources)
	for _, s := range slices.Concat(mains, others) {
		if s.Kind == adapters.Snapshot && ofMain(s.ID) {
			return nil, fmt.Errorf("%w: transcript %s is one file that is rewritten, and can't be cut behind a block", adapters.ErrUnsupported, s.Path)
		}
	}
	if c, ok := agent.(adapters.Cutter); ok {
		for i, s := range mains {
			mains[i].Open = func() (io.ReadCloser, error) { return c.Cut(s, k.has) }
		}
		return slices.Concat(mains, others), nil
	}
	for {
		cut, err := cutLines(agent, mains, others, k)
		if err != nil {
			return nil, err
		}
		left, err := begun(agent, cut, others, k)
		if err != nil {
			return nil, err
		}
		out := slices.Concat(cut, left)
		has, err := mainBlocks(agent.Parse(out))
		if err != nil || !k.extend(has) {
			return out, err
		}
	}
}

// split returns the main transcripts in the order of their content, and the others.
func split(sources []adapters.Source) (mains, others []adapters.Source) {
	for _, s := range sources {
		if _, is := mainNumber(s.ID); is {
			mains = append(mains, s)
		} else {
			others = append(others, s)
		}
	}
	slices.SortFunc(mains, func(x, y adapters.Source) int {
		nx, _ := mainNumber(x.ID)
		ny, _ := mainNumber(y.ID)
		return cmp.Compare(nx, ny)
	})
	return mains, others
}

// mainNumber returns the place of a main transcript: an agent that begins another file goes on in
// main.2.
func mainNumber(id string) (int, bool) {
	if id == event.Main {
		return 1, true
	}
	n, err := strconv.Atoi(strings.TrimPrefix(id, event.Main+"."))
	return n, err == nil && ofMain(id)
}

// ofMain reports whether a transcript is of the main conversation, maybe as a companion.
func ofMain(id string) bool { return id == event.Main || strings.HasPrefix(id, event.Main+".") }

// cutLines returns the shortest beginning of the main transcripts that has the kept blocks.
func cutLines(agent adapters.Adapter, mains, others []adapters.Source, k Kept) ([]adapters.Source, error) {
	var ends []end
	for i, m := range mains {
		sizes, err := lineEnds(m)
		if err != nil {
			return nil, err
		}
		for _, size := range sizes {
			ends = append(ends, end{i, size})
		}
	}
	native, err := mainBlocks(agent.Parse(slices.Concat(mains, others)))
	if err != nil {
		return nil, err
	}
	for id := range native {
		if !k.Blocks[id] {
			delete(native, id)
		}
	}
	var failed error
	n := sort.Search(len(ends)+1, func(n int) bool {
		has, err := mainBlocks(agent.Parse(slices.Concat(beginning(mains, ends[:n]), others)))
		failed = errors.Join(failed, err)
		for id := range native {
			if !has[id] {
				return false
			}
		}
		return true
	})
	if failed == nil && n > len(ends) {
		failed = errors.New("the transcripts have not all of their blocks")
	}
	return beginning(mains, ends[:min(n, len(ends))]), failed
}

// end is the end of a line: the number of its transcript, and the bytes before it.
type end struct {
	transcript int
	size       int64
}

// beginning returns the transcripts up to the last of the ends.
func beginning(mains []adapters.Source, ends []end) []adapters.Source {
	if len(ends) == 0 {
		return nil
	}
	last := ends[len(ends)-1]
	out := slices.Clone(mains[:last.transcript+1])
	whole := out[last.transcript].Open
	out[last.transcript].Open = func() (io.ReadCloser, error) {
		in, err := whole()
		if err != nil {
			return nil, err
		}
		return readCloser{io.LimitReader(in, last.size), in}, nil
	}
	return out
}

type readCloser struct {
	io.Reader
	io.Closer
}

// lineEnds returns where the lines of a transcript end.
func lineEnds(s adapters.Source) (ends []int64, err error) {
	in, err := s.Open()
	if err != nil {
		return nil, err
	}
	defer in.Close() // it was only read
	lines, size := bufio.NewReaderSize(in, 1<<16), int64(0)
	for {
		part, err := lines.ReadSlice('\n')
		size += int64(len(part))
		switch {
		case err == nil:
			ends = append(ends, size)
		case errors.Is(err, io.EOF):
			return ends, nil // what is behind the last line is no line
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("transcript %s: %w", s.Path, err)
		}
	}
}

// mainBlocks returns the blocks of the main conversation.
func mainBlocks(events iter.Seq2[event.Event, error]) (map[string]bool, error) {
	c, err := read(events)
	if err != nil {
		return nil, err
	}
	has := map[string]bool{}
	for id := range c.seen {
		has[id] = true
	}
	return has, nil
}

// begun returns the subagents' transcripts without those that nothing in the main transcripts has
// begun.
func begun(agent adapters.Adapter, mains, others []adapters.Source, k Kept) ([]adapters.Source, error) {
	c, err := read(agent.Parse(slices.Concat(mains, others)))
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(others), func(s adapters.Source) bool {
		thread, _, _ := strings.Cut(s.ID, ".") // that of a companion
		_, known := c.threads[thread]
		stray := c.spoke[thread] || c.spoke["agent-"+thread] // as parsers name one whose call they don't know
		return (known || stray) && !c.begins(thread, k)
	}), nil
}
