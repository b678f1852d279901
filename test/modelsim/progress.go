package modelsim

// progress is how many answers to a prompt were given, counted from what has
// come in since.
type progress struct {
	waits   waiting
	turn    int
	results []Result
	notices int
	// background are subagents that were not waited for yet.
	background []Result
}

func newProgress(c Conversation) *progress {
	t := c.last()
	p := &progress{waits: waitingOf(c.Tools), turn: len(c.Turns), results: t.Results, notices: t.Notices}
	for _, earlier := range c.Turns[:max(len(c.Turns)-1, 0)] {
		for _, r := range earlier.Results {
			if r.Agent != "" && (!r.Reported || r.Waited == p.turn) {
				p.background = append(p.background, r)
			}
		}
	}
	return p
}

// skipDone drops the steps that earlier answers to this prompt held: all up
// to the last call whose results are in. called reports whether there was one.
func skipDone(c Conversation, steps []step) (rest []step, called bool) {
	p := newProgress(c)
	for i, s := range steps {
		switch state, instead := p.pass(s); state {
		case stepOver:
			rest, called = nil, true
		case stepBegun:
			return append([]step{instead}, steps[i+1:]...), true
		case stepDue:
			return append(append(rest, instead), steps[i+1:]...), called
		case stepIdle:
			rest = append(rest, s)
		}
	}
	return rest, called
}

// state is what has become of a step.
type state int

const (
	// stepIdle asks for nothing: whether it is over is known from what
	// comes after them.
	stepIdle state = iota
	// stepOver has got what it asked for.
	stepOver
	// stepDue has yet to ask.
	stepDue
	// stepBegun has got a part, and asks for the rest.
	stepBegun
	// stepVoid has nothing to ask for.
	stepVoid
)

// pass looks at one step; instead is what is due in its place.
func (p *progress) pass(s step) (is state, instead step) {
	if _, waits := s.(waitStep); waits {
		return p.passWait()
	}
	n := s.consumes()
	switch {
	case n == 0:
		return stepIdle, nil
	case len(p.results) < n:
		return stepDue, s
	}
	first := p.results[0]
	p.results = p.results[n:]
	if first.Agent == "" {
		return stepOver, nil
	}
	if call, ok := s.(callStep); ok && !call.call.Background && !first.Reported {
		return stepBegun, awaitStep{first.Agent}
	} else if ok && call.call.Background {
		p.background = append(p.background, first)
	}
	return stepOver, nil
}

func (p *progress) passWait() (is state, instead step) {
	switch {
	case p.waits == waitsNever:
		return stepVoid, nil
	case p.waits == waitsForNotice && p.notices > 0:
		p.notices--
		return stepOver, nil
	case p.waits == waitsForNotice:
		return stepDue, waitStep{}
	case len(p.background) == 0:
		return stepVoid, nil
	}
	next := p.background[0]
	p.background = p.background[1:]
	switch {
	case !next.Reported:
		return stepDue, awaitStep{next.Agent}
	case next.Waited == p.turn:
		return stepOver, nil
	}
	return stepVoid, nil // it reported before anybody asked
}
