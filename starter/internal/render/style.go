package render

// style is an ANSI colour, applied only if colours are on.
type style string

const (
	plain  style = ""
	bold   style = "1"
	dim    style = "2"
	italic style = "2;3"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	cyan   style = "36"
	asked  style = "1;33"
	user   style = "1;36"
)

// laneStyles distinguish subagents; there are fewer than subagents.
var laneStyles = [...]style{"35", "34", "36", "33", "32"}

func (p *Printer) paint(s style, text string) string {
	if !p.o.Color || s == plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}
