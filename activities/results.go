package activities

import (
	"github.com/sojourn-run/sojourn/reducer/brief"
	"github.com/sojourn-run/sojourn/session"
)

// historyResponse bounds the answer's text in workflow history, in bytes.
const historyResponse = 2 << 10

// shortened returns a result small enough for workflow history.
func shortened(res session.Result) session.Result {
	if res.Result != nil {
		short := brief.Shorten(*res.Result, historyResponse)
		res.Result = &short
	}
	return res
}
