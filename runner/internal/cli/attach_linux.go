package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"

	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/runner/internal/wire"
)

// attach bridges the control socket to stdio. The first line of stdin is the
// protocol's hello, or a bare token. It ends when the runner hangs up, or when
// stdin has ended and the runner sends nothing more.
func attach(ctx context.Context, args []string, std io3) error {
	fs := flag.NewFlagSet("attach", flag.ContinueOnError)
	socket := fs.String("socket", "", "")
	epoch := fs.Uint64("epoch", 0, "")
	from := fs.Int64("from", -1, "")
	if err := parse(fs, args, "socket"); err != nil {
		return err
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", *socket)
	if err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	in := bufio.NewReaderSize(std.in, 64<<10)
	if err := introduce(in, conn, *epoch, *from); err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	return bridge(in, conn.(*net.UnixConn), std.out, *from >= 0)
}

// introduce sends the hello and, if wanted, the request for records, under an id
// that no client's counter reaches.
func introduce(in *bufio.Reader, conn io.Writer, epoch uint64, from int64) error {
	first, err := wire.ReadLine(in)
	if err != nil {
		return fmt.Errorf("read the token: %w", err)
	}
	lines := append(bytes.Clone(first), '\n')
	if !bytes.HasPrefix(first, []byte{'{'}) {
		lines, err = request(wire.OpHello, wire.Hello{Token: string(first), Epoch: epoch})
	}
	if err == nil && from >= 0 {
		var more []byte
		more, err = request(wire.OpRecords, wire.Records{From: from})
		lines = append(lines, more...)
	}
	if err != nil {
		return err
	}
	_, err = conn.Write(lines)
	return err
}

func request(op string, args any) ([]byte, error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	return wire.Line(wire.Request{Op: op, Args: raw})
}

// bridge copies both ways. With follow it continues after the end of stdin.
func bridge(in io.Reader, conn *net.UnixConn, out io.Writer, follow bool) error {
	go func() {
		// This ends with the process at the latest: reading stdin cannot be
		// interrupted.
		_, _ = io.Copy(conn, in)
		if !follow {
			_ = conn.CloseWrite()
		}
	}()
	// Behind a plain writer there is no splice(2): from a socket to a pipe that blocks, Go
	// calls that again and again while the pipe is full, so a reader that was stopped, or
	// only slow, had a processor taken from it.
	_, err := io.Copy(struct{ io.Writer }{out}, conn)
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// delivery is one line of `records`.
type delivery struct {
	Offset int64           `json:"offset"`
	Next   int64           `json:"next"`
	Record json.RawMessage `json:"record"`
}

// dial reads the token, the first line of stdin, and connects.
func dial(ctx context.Context, in *bufio.Reader, socket string, epoch uint64) (*runner.Conn, error) {
	token, err := wire.ReadLine(in)
	if err != nil {
		return nil, fmt.Errorf("read the token from stdin: %w", err)
	}
	return runner.DialSocket(ctx, socket, string(token), epoch)
}
