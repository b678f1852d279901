package event

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

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

// The error is terminal: a reader that goes on gets nothing more.
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
		require.Equal(t, TypeOf(BlockDelta{}), e.Type())
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
	var buf bytes.Buffer
	enc := NewEncoder(&buf)
	require.NoError(t, enc.EncodeRecord(Record{Dir: DirOut, Line: long}))
	require.NoError(t, enc.EncodeRecord(Record{Dir: DirOut, Line: "next"}))
	good, err := collect(DecodeRecords(&buf, RecordOptions{}))
	require.NoError(t, err)
	require.Len(t, good, 2)
	require.Equal(t, len(long), len(good[0].Line))
}

func TestDecodeRecords(t *testing.T) {
	t.Parallel()
	input := `{"ts":1,"dir":"in","line":"a"}` + "\n" + `{"ms":2,"dir":"err","line":"b"}` + "\n"
	good, err := collect(DecodeRecords(strings.NewReader(input), RecordOptions{}))
	require.NoError(t, err)
	require.Equal(t, []Record{{TS: at(1), Dir: DirIn, Line: "a"}, {TS: at(2), Dir: DirErr, Line: "b"}}, good)
	_, err = collect(DecodeRecords(strings.NewReader(input+"plain\n"), RecordOptions{}))
	require.ErrorContains(t, err, "line 3: ")
}

func TestDecodeRecordsPlain(t *testing.T) {
	t.Parallel()
	input := `{"type":"system","line":4}` + "\nplain text \n" + `{"ts":1,"dir":"in","line":"a"}` + "\n"
	good, err := collect(DecodeRecords(strings.NewReader(input), RecordOptions{Plain: true}))
	require.NoError(t, err)
	require.Equal(t, []Record{{Dir: DirOut, Line: `{"type":"system","line":4}`}, {Dir: DirOut, Line: "plain text "}, {TS: at(1), Dir: DirIn, Line: "a"}}, good)
	_, err = collect(DecodeRecords(strings.NewReader(`{"dir":"sideways","line":"a"}`), RecordOptions{Plain: true}))
	require.ErrorContains(t, err, "sideways", "a bad record is a bad record and no output")
}

func TestEncoderWritesWhatDecodeReads(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	enc := NewEncoder(&buf)
	var want []Event
	for _, typ := range Types() {
		e := whole(sample()[typ])
		require.NoError(t, enc.Encode(e))
		want = append(want, e)
	}
	require.Error(t, enc.Encode(Event{}), "refused, and nothing written")
	require.ErrorContains(t, enc.EncodeRecord(Record{}), "dir")
	good, err := collect(Decode(&buf))
	require.NoError(t, err)
	require.Equal(t, want, good)
}

type fullDisk struct{ error }

func (d fullDisk) Write([]byte) (int, error) { return 0, d.error }

func TestEncoderPassesTheWritersErrorOn(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	enc := NewEncoder(fullDisk{full})
	require.ErrorIs(t, enc.Encode(whole(Log{})), full)
	require.ErrorIs(t, enc.EncodeRecord(Record{Dir: DirOut}), full)
}
