package starter

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-run/sojourn/gateway"
)

// serveFlags are those of serve.
type serveFlags struct {
	listen, tokenFile string
	origins           []string
}

func (c *cli) serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Offer sessions over HTTP: REST, and events over a WebSocket",
		Long: `Offer sessions over HTTP, until it is stopped: REST for requests, and rooms over a WebSocket for events (package gateway has both).
Every request has to have the token, as Authorization: Bearer TOKEN: that of --token-file or of SOJOURN_GATEWAY_TOKEN, or else
one that is made and printed. It is no TLS server: put one before it where it is not on this machine alone.`,
		Example: "  sojourn serve --listen 127.0.0.1:7244\n  curl -H \"Authorization: Bearer $TOKEN\" http://127.0.0.1:7244/sessions",
		Args:    wants,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.serve(cmd.Context(), f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.listen, "listen", "127.0.0.1:7244", "the `ADDRESS` to listen on; port 0 is any")
	fl.StringVar(&f.tokenFile, "token-file", "", "read the token from `FILE`")
	fl.StringArrayVar(&f.origins, "origin", nil, "a `HOST` whose web pages may use it, such as app.example.com (repeatable)")
	return cmd
}

// gatewayToken returns the token, and whether it was made now.
func (c *cli) gatewayToken(f serveFlags) (token string, isNew bool, err error) {
	if f.tokenFile != "" {
		data, err := os.ReadFile(f.tokenFile)
		if err != nil {
			return "", false, usage("--token-file wants a file with a token", "--token-file: %s", plainPathError(err))
		}
		if token = strings.TrimSpace(string(data)); token == "" {
			return "", false, usage("--token-file wants a file with a token", "--token-file: %s is empty", f.tokenFile)
		}
		return token, false, nil
	}
	if token = c.env.Get("SOJOURN_GATEWAY_TOKEN"); token != "" {
		return token, false, nil
	}
	return rand.Text(), true, nil
}

func (c *cli) serve(ctx context.Context, f serveFlags) error {
	token, isNew, err := c.gatewayToken(f)
	if err != nil {
		return err
	}
	sc, err := c.client(ctx, needTemporal|needStream|needArchiveNow)
	if err != nil {
		return err
	}
	handler, err := gateway.New(gateway.Options{
		Sessions: sc, Token: token, Origins: f.origins, Log: slog.New(slog.NewTextHandler(c.stderr, nil)),
	})
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return usage("--listen wants a free address, such as 127.0.0.1:7244", "--listen: %s", err)
	}
	if err := c.sayServing("http://"+l.Addr().String(), token, isNew); err != nil {
		return errors.Join(err, l.Close())
	}
	return serveUntil(ctx, l, handler)
}

func (c *cli) sayServing(url, token string, isNew bool) error {
	shown := ""
	if isNew {
		shown = token
	}
	if c.json {
		return c.printJSON(struct {
			URL   string `json:"url"`
			Token string `json:"token,omitempty"`
		}{url, shown})
	}
	line := "sojourn serves at " + url
	if isNew {
		line += ", with the token " + token
	}
	return writeLine(c.stdout, line)
}

// goodbye is how long requests may take when the server is stopped.
const goodbye = 5 * time.Second

// serveUntil serves until ctx ends.
func serveUntil(ctx context.Context, l net.Listener, handler http.Handler) error {
	requests, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	s := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return requests },
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	// Whoever still waits then is answered that it ends.
	defer time.AfterFunc(goodbye, stop).Stop()
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye+time.Second)
	defer cancel()
	if err := s.Shutdown(late); err != nil {
		return errors.Join(err, s.Close())
	}
	return nil
}
