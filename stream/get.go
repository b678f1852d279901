package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// getRequest is the body of a direct get.
type getRequest struct {
	// Seq is the number to begin at.
	Seq uint64 `json:"seq"`
	// NextFor requests the first messages of this subject from there on.
	NextFor  string `json:"next_by_subj"`
	Batch    int    `json:"batch,omitempty"`
	MaxBytes int    `json:"max_bytes,omitempty"`
}

func (l *Log) directSubject() string {
	return jetstream.DefaultAPIPrefix + "DIRECT.GET." + l.opts.Name
}

// getLast returns the last message of a subject, or [ErrNotFound]. If foreign
// messages follow it, it is returned with the number of the last of those.
func (l *Log) getLast(ctx context.Context, subject string) (message, error) {
	m, err := l.get(ctx, l.directSubject()+"."+subject, nil)
	if !errors.Is(err, ErrCorrupt) {
		return m, err
	}
	l.sayForeign(ctx, err)
	good, err := l.lastBefore(ctx, subject, m.at)
	good.at = m.at
	return good, err
}

// lastBefore returns the last message of this package before number at; the zero
// message if there is none.
func (l *Log) lastBefore(ctx context.Context, subject string, at uint64) (last message, err error) {
	for step := uint64(1); last.at == 0; step *= 2 {
		from := max(at, step+1) - step
		for {
			m, err := l.getNext(ctx, subject, from)
			if errors.Is(err, ErrNotFound) || err == nil && m.at >= at {
				break
			}
			if err != nil {
				return message{}, err
			}
			last, from = m, m.at+1
		}
		if step >= at {
			break
		}
	}
	return last, nil
}

// sayForeign logs a foreign message. If events are lost with it, readers find the
// gap in the numbers.
func (l *Log) sayForeign(ctx context.Context, err error) {
	l.opts.Logger.WarnContext(ctx, "a message in the stream is left out", "stream", l.opts.Name, "error", err)
}

// getNext returns the first message of a subject whose number is at least from,
// or [ErrNotFound]. Foreign messages are skipped.
func (l *Log) getNext(ctx context.Context, subject string, from uint64) (message, error) {
	for {
		m, err := l.getAt(ctx, subject, from)
		if !errors.Is(err, ErrCorrupt) {
			return m, err
		}
		l.sayForeign(ctx, err)
		from = m.at + 1
	}
}

// getAt is getNext that returns [ErrCorrupt] for a foreign message, with its
// number.
func (l *Log) getAt(ctx context.Context, subject string, from uint64) (message, error) {
	body, err := json.Marshal(getRequest{Seq: max(from, 1), NextFor: subject})
	if err != nil {
		return message{}, fmt.Errorf("stream: encode request: %w", err)
	}
	return l.get(ctx, l.directSubject(), body)
}

func (l *Log) get(ctx context.Context, subject string, body []byte) (message, error) {
	answer, err := l.nc.RequestWithContext(ctx, subject, body)
	if err != nil {
		return message{}, err
	}
	if err := answerStatus(answer); err != nil {
		return message{}, err
	}
	return fromAnswer(answer)
}

const (
	statusHeader      = "Status"
	descriptionHeader = "Description"
	pendingHeader     = "Nats-Num-Pending"
)

// errEnd is the mark behind the last answer to a batch request.
var errEnd = errors.New("end of batch")

// answerStatus returns the error of an answer that is not a message.
func answerStatus(answer *nats.Msg) error {
	if len(answer.Data) > 0 {
		return nil
	}
	switch status := answer.Header.Get(statusHeader); status {
	case "":
		return nil
	case "204":
		return errEnd
	case "404":
		return ErrNotFound
	case "503":
		return nats.ErrNoResponders
	default:
		return fmt.Errorf("direct get: %s %s", status, answer.Header.Get(descriptionHeader))
	}
}

func fromAnswer(answer *nats.Msg) (message, error) {
	at, err := sequence(answer.Header, jetstream.SequenceHeader)
	if err != nil {
		return message{}, err
	}
	m, err := parseMessage(at, answer.Header, answer.Data)
	if err != nil {
		return message{at: at}, fmt.Errorf("message %d: %w", at, err)
	}
	return m, nil
}

const (
	// fetchFirst, fetchMost and fetchBytes bound one answer to a reader. The first is
	// small, so that the first event arrives at once; the largest makes round trips
	// negligible.
	fetchFirst = 16
	fetchMost  = 512
	fetchBytes = 2 << 20
)

// fetch returns the messages of a subject from number from on, at most count of
// them, and fewer if they are large; [ErrNotFound] if there are none. more
// reports whether the stream has further ones. The server keeps only the inbox's
// subscription, which ends with the call.
func (l *Log) fetch(ctx context.Context, subject string, from uint64, count int) (out []message, more bool, err error) {
	body, err := json.Marshal(getRequest{Seq: max(from, 1), NextFor: subject, Batch: count, MaxBytes: fetchBytes})
	if err != nil {
		return nil, false, fmt.Errorf("stream: encode request: %w", err)
	}
	inbox := l.nc.NewInbox()
	sub, err := l.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only if the connection has ended, and the subscription with it
	if err := l.nc.PublishRequest(l.directSubject(), inbox, body); err != nil {
		return nil, false, err
	}
	return l.collect(ctx, sub)
}

// collect reads the answers of one batch request up to the end mark. Of a foreign
// message only the number is set.
func (l *Log) collect(ctx context.Context, sub *nats.Subscription) (out []message, more bool, err error) {
	for {
		answer, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return nil, false, err
		}
		switch err := answerStatus(answer); {
		case errors.Is(err, errEnd):
			return out, answer.Header.Get(pendingHeader) != "0", nil
		case err != nil:
			return nil, false, err
		}
		m, err := fromAnswer(answer)
		if errors.Is(err, ErrCorrupt) && m.at > 0 {
			l.sayForeign(ctx, err)
		} else if err != nil {
			return nil, false, err
		}
		out = append(out, m)
	}
}
