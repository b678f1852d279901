package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
)

// Dial connects to the agent's server.
type Dial = func(ctx context.Context, network, address string) (net.Conn, error)

// DialLoopback is the [Dial] of the machine's own network. It reaches loopback
// addresses only, whatever a name resolves to.
func DialLoopback(ctx context.Context, network, address string) (net.Conn, error) {
	d := &net.Dialer{ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		if ip, err := netip.ParseAddrPort(address); err != nil || !ip.Addr().Unmap().IsLoopback() {
			return fmt.Errorf("%s is no loopback address", address)
		}
		return nil
	}}
	return d.DialContext(ctx, network, address)
}

// newClient returns a client that neither follows redirects nor uses a proxy.
// Each request has its own connection: on a reused one, the server closing it at
// the same moment could not be distinguished from a failed request.
func newClient(dial Dial) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:        dial,
			DisableKeepAlives:  true,
			DisableCompression: true,
			ReadBufferSize:     readSize,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// baseURL parses what follows the ready mark.
func baseURL(text string) (*url.URL, error) {
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return nil, errors.New("the server's base URL is missing behind the mark of readiness")
	}
	u, err := url.Parse(fields[0])
	switch {
	case err != nil || u.Scheme != "http" || u.Host == "":
		return nil, fmt.Errorf("the server's base URL is %.200q, want http://HOST:PORT", fields[0])
	case !loopback(u.Hostname()):
		return nil, fmt.Errorf("the server's base URL is %.200q, only loopback addresses are accepted", fields[0])
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimSuffix(u.Path, "/")}, nil
}

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// request returns a request for a path on that server only.
func (c *conversation) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") {
		return nil, fmt.Errorf("path is %.200q, want one that begins with one /", path)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base.String()+path, body)
	if err != nil {
		return nil, bare(err)
	}
	if req.URL.Host != c.base.Host {
		return nil, fmt.Errorf("path is %.200q, which leads to another host", path)
	}
	if c.password != "" {
		req.SetBasicAuth(c.spec.User, c.password)
	}
	return req, nil
}

// bare removes the URL from an error, since method and path are known.
func bare(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}
