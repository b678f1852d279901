package activities

import (
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/turn"
)

// historyResponse bounds the answer's text in workflow history, in bytes.
const historyResponse = 2 << 10

// shortened returns a result as small as workflow history wants it.
func shortened(res session.Result) session.Result {
	if res.Result != nil {
		short := turn.Shorten(*res.Result, historyResponse)
		res.Result = &short
	}
	return res
}
