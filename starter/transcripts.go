package starter

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
)

// transcripts are a command's files, watched while an adapter reads them.
type transcripts struct {
	sources []adapters.Source
	files   []*watched
}

// watched is a transcript of which no more is read than it had at first: an agent
// that writes during the read could continue for ever.
type watched struct {
	adapters.Source
	size  int64
	lines *lines // nil if it is not read by lines
}

// companion reports whether a file only describes a transcript.
func (w *watched) companion() bool { return strings.Contains(w.ID, ".") }

func (c *cli) transcripts(a adapters.Adapter, paths []string, f *faults) (*transcripts, error) {
	found, err := adapters.SourcesFrom(a, paths...)
	if err != nil {
		return nil, badPaths(err)
	}
	t := &transcripts{}
	for _, src := range found {
		w := &watched{Source: src}
		if info, err := os.Stat(src.Path); err == nil {
			w.size = info.Size()
			if info.Mode().IsRegular() && src.Kind == adapters.Append {
				src.Open = w.open(f)
			}
		}
		t.files = append(t.files, w)
		t.sources = append(t.sources, src)
	}
	return t, nil
}

const hintTranscript = "give a transcript file, or the folder that is the agent's home"

// badPaths returns the error for transcripts that are not valid arguments.
func badPaths(err error) error {
	if errors.Is(err, adapters.ErrManySessions) {
		return usage("give the transcript file of one session", "%s", err)
	}
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return failed(hintTranscript, "%s", plainPathError(err))
	}
	return err
}

type readCloser struct {
	io.Reader
	io.Closer
}

func (w *watched) open(f *faults) func() (io.ReadCloser, error) {
	from := w.Open
	return func() (io.ReadCloser, error) {
		in, err := from()
		if err != nil {
			return nil, err
		}
		w.lines = newLines(io.LimitReader(in, w.size), func(number int) error {
			f.at(w.Path, number, "%v", errGarbled)
			return nil
		})
		return readCloser{w.lines, in}, nil
	}
}

// changed reports files that have changed since they were opened.
func (t *transcripts) changed(f *faults) {
	for _, w := range t.files {
		info, err := os.Stat(w.Path)
		switch {
		case err != nil:
			f.add(errors.New(plainPathError(err)))
		case info.Size() == w.size:
		case w.lines == nil:
			f.at(w.Path, 1, "the file changed while it was read")
		case info.Size() > w.size:
			f.at(w.Path, w.lines.number, "the file has grown while it was read, and what came behind this line is left out")
		default:
			f.at(w.Path, w.lines.number, "the file was cut while it was read")
		}
	}
}

// foreign reports files in which the adapter found nothing.
func (t *transcripts) foreign(a adapters.Adapter, h heed, f *faults) {
	product := a.Info().Product
	if h.known == 0 && h.foreign == 0 && f.count == 0 && t.empty() {
		f.at(t.files[0].Path, 1, "no %s transcript: the file is empty", product)
	}
	if h.stranger() {
		f.at(t.files[0].Path, 1, "no %s transcript: nothing in the file is known to it", product)
	}
}

func (t *transcripts) empty() bool {
	for _, w := range t.files {
		blank := w.size == 0 || w.lines != nil && w.lines.empty
		if !w.companion() && !blank {
			return false
		}
	}
	return len(t.files) > 0
}

// nothingIn returns what to do about files in which the adapter found nothing.
func (c *cli) nothingIn(paths []string, agent string) string {
	if other, found := c.readBy(paths, agent); found {
		return "it is a transcript of another agent: --agent " + other
	}
	return hintTranscript
}

// readBy returns an agent that can read the whole transcript.
func (c *cli) readBy(paths []string, not string) (name string, found bool) {
	for _, name := range c.agents.Names() {
		a, err := c.agents.Get(name)
		if err == nil && name != not && reads(a, paths) {
			return name, true
		}
	}
	return "", false
}

func reads(a adapters.Adapter, paths []string) bool {
	sources, err := adapters.SourcesFrom(a, paths...)
	if err != nil {
		return false
	}
	var h heed
	for e, err := range a.Parse(sources) {
		if err != nil {
			return false
		}
		h.add(e)
	}
	return h.known > 0
}

func (c *cli) parse(agent string, paths []string) error {
	a, err := c.agent(agent)
	if err != nil {
		return err
	}
	faults := c.faults()
	t, err := c.transcripts(a, paths, faults)
	if err != nil {
		return err
	}
	var b reducer.Builder
	h := c.read(a, t, faults, func(e event.Event) { b.Add(e) })
	if faults.count > 0 && h.known == 0 {
		faults.hint = c.nothingIn(paths, agent)
	}
	if err := c.printJSON(b.State()); err != nil {
		return err
	}
	return faults.err()
}

// read passes on the valid part of the transcripts, and reports the rest.
func (c *cli) read(a adapters.Adapter, t *transcripts, f *faults, take func(event.Event)) heed {
	var h heed
	for e, err := range a.Parse(t.sources) {
		if err != nil {
			f.add(place(err, t.sources))
			continue
		}
		h.add(e)
		take(e)
	}
	t.foreign(a, h, f)
	t.changed(f)
	return h
}
