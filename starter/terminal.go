package starter

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/sojourn-run/sojourn/starter/internal/render"
)

// terminal returns the file behind a stream that is a terminal.
func terminal(stream any) (*os.File, bool) {
	f, ok := stream.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

// renderOptions returns the options for output to w.
func (c *cli) renderOptions(w io.Writer) render.Options {
	f, ok := terminal(w)
	if !ok || c.env.Get("TERM") == "dumb" || !enableColors(f) {
		return render.Options{}
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width < 20 {
		width = 80
	}
	return render.Options{Color: c.env.Get("NO_COLOR") == "", Width: width, Rewrite: true}
}
