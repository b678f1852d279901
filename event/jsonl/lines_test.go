package jsonl

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
)

func at(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

const deltaLine = `{"type":"block:delta","payload":{"blockId":"b","delta":"x"},"context":{}}`

func collect[T any](seq func(yield func(T, error) bool)) (good []T, err error) {
	for v, e := range seq {
		if e != nil {
			return good, e
		}
		good = append(good, v)
	}
	return good, nil
}

func TestDecodeKeepsTheGoodPartAndNamesTheLine(t *testing.T) {
	t.Parallel()
	good, err := collect(Decode(strings.NewReader(deltaLine + "\n\n  \r\n" + deltaLine + "\n{\"type\":\"block:del\n" + deltaLine + "\n")))
	require.Len(t, good, 2)
	require.ErrorContains(t, err, "line 5: ")
	require.NotContains(t, err.Error(), "\n")
}

// The error is terminal: a reader that continues gets nothing more.
func TestDecodeErrorIsTerminal(t *testing.T) {
	t.Parallel()
	n := 0
	for range Decode(strings.NewReader("?\n" + deltaLine + "\n")) {
		n++
	}
	require.Equal(t, 1, n)
}

func TestDecodeTakesALastLineWithoutLineEnd(t *testing.T) {
	t.Parallel()
	good, err := collect(Decode(iotest.OneByteReader(strings.NewReader(deltaLine + "\n" + deltaLine))))
	require.NoError(t, err)
	require.Len(t, good, 2)
}

func TestDecodeStopsWhenTheCallerDoes(t *testing.T) {
	t.Parallel()
	for e, err := range Decode(io.MultiReader(strings.NewReader(deltaLine+"\n"), iotest.ErrReader(errors.New("not read")))) {
		require.NoError(t, err)
		require.Equal(t, event.TypeOf(event.BlockDelta{}), e.Type())
		break
	}
}

func TestDecodePassesTheReadersErrorOn(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	good, err := collect(Decode(io.MultiReader(strings.NewReader(deltaLine+"\n"+deltaLine[:9]), iotest.ErrReader(gone))))
	require.Len(t, good, 1)
	require.ErrorIs(t, err, gone)
	require.ErrorContains(t, err, "line 2")
}

// A screenshot is one line: there is no limit to hit.
func TestLinesHaveNoLimit(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 64<<20)
	buf := append(traffic.Append(nil, traffic.Record{Dir: event.DirOut, Line: long}), '\n')
	buf = append(traffic.Append(buf, traffic.Record{Dir: event.DirOut, Line: "next"}), '\n')
	good, err := collect(DecodeRecords(bytes.NewReader(buf), RecordOptions{}))
	require.NoError(t, err)
	require.Len(t, good, 2)
	require.Equal(t, len(long), len(good[0].Line))
}

func TestDecodeRecords(t *testing.T) {
	t.Parallel()
	input := `{"ts":1,"dir":"in","line":"a"}` + "\n" + `{"ms":2,"dir":"err","line":"b"}` + "\n"
	good, err := collect(DecodeRecords(strings.NewReader(input), RecordOptions{}))
	require.NoError(t, err)
	require.Equal(t, []traffic.Record{{TS: at(1), Dir: event.DirIn, Line: "a"}, {TS: at(2), Dir: event.DirErr, Line: "b"}}, good)
	_, err = collect(DecodeRecords(strings.NewReader(input+"plain\n"), RecordOptions{}))
	require.ErrorContains(t, err, "line 3: ")
}

func TestDecodeRecordsPlain(t *testing.T) {
	t.Parallel()
	input := `{"type":"system","line":4}` + "\nplain text \n" + `{"ts":1,"dir":"in","line":"a"}` + "\n"
	good, err := collect(DecodeRecords(strings.NewReader(input), RecordOptions{Plain: true}))
	require.NoError(t, err)
	require.Equal(t, []traffic.Record{{Dir: event.DirOut, Line: `{"type":"system","line":4}`}, {Dir: event.DirOut, Line: "plain text "}, {TS: at(1), Dir: event.DirIn, Line: "a"}}, good)
	_, err = collect(DecodeRecords(strings.NewReader(`{"dir":"sideways","line":"a"}`), RecordOptions{Plain: true}))
	require.ErrorContains(t, err, "sideways", "a bad record is a bad record and no output")
}

func TestEncoderWritesWhatDecodeReads(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	enc := NewEncoder(&buf)
	want := []event.Event{
		event.FromServer(event.BlockDelta{BlockID: "b", Delta: "d\n\"漢\""}, at(1)),
		event.FromServer(event.Log{Level: "info", Message: strings.Repeat("x", keepBuffer)}, at(2)),
		{Payload: event.Unknown{Name: "new:thing", Raw: []byte("[1, 2]")}},
	}
	for _, e := range want {
		require.NoError(t, enc.Encode(e))
	}
	require.Error(t, enc.Encode(event.Event{}), "refused, and nothing written")
	good, err := collect(Decode(&buf))
	require.NoError(t, err)
	require.Equal(t, want, good)
}

type fullDisk struct{ error }

func (d fullDisk) Write([]byte) (int, error) { return 0, d.error }

func TestEncoderPassesTheWritersErrorOn(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	require.ErrorIs(t, NewEncoder(fullDisk{full}).Encode(event.FromServer(event.Log{}, at(1))), full)
}

// FuzzDecodeRecords: any bytes are records or an error.
func FuzzDecodeRecords(f *testing.F) {
	f.Add([]byte(`{"ts":"2026-01-02T03:04:05.678Z","dir":"out","line":"{\"a\":1}"}`))
	f.Add([]byte("{\"dir\":\"err\",\"line\":\"?\",\"raw\":\"/w==\"}\n\xff plain \x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		records, err := collect(DecodeRecords(bytes.NewReader(data), RecordOptions{Plain: true}))
		require.LessOrEqual(t, len(records), bytes.Count(data, []byte("\n"))+1)
		if err != nil {
			require.ErrorContains(t, err, "line ")
		}
	})
}

func BenchmarkDecodeDelta(b *testing.B) {
	line, err := event.AppendEvent(nil, event.Event{Payload: event.BlockDelta{BlockID: "msg_01:0", Delta: "five words of it, "}, Context: event.Context{
		SessionID: "s", ConversationID: event.Main, Source: event.SourceRunner, Timestamp: at(1_700_000_000_001), Seq: 7}})
	require.NoError(b, err)
	input := bytes.Repeat(append(line, '\n'), 1000)
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range Decode(bytes.NewReader(input)) {
			require.NoError(b, err)
		}
	}
	b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds(), "events/s")
}
