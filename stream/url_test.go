package stream

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/test/teststack"
)

// planted is the secret that no error may show any part of.
const planted = "pl4nted"

// secretURLs are ways to write a server's URL with a secret, right and wrong.
func secretURLs(address string) []string {
	return []string{
		"nats://me:" + planted + "@" + address,
		"nats://" + planted + "@" + address,
		"me:" + planted + "@" + address,
		planted + "@" + address,
		"tls://me:" + planted + "@" + address,
		"nats://me:" + planted + "%zz@" + address,
		"nats://me:" + planted + "/x@" + address,
		"nats://me:" + planted + "?x#y@" + address,
		"nats://me:" + planted + "@" + planted + "@" + address,
		"nats://me:" + planted + " " + planted + "@" + address,
		"nats://me:" + planted + "," + planted + "@" + address,
		"nats://me:" + planted + "," + planted + "/x@" + address,
		"nats://me:" + planted,
		"nats://me:" + planted + "@" + address + ",nats://" + planted + "@" + address + ", " + planted + "@" + address,
		"nats://me:" + planted + "@" + address + ":port",
		"nats://me:" + planted + "@",
	}
}

func TestNoErrorShowsASecretOfTheURL(t *testing.T) {
	t.Parallel()
	silent := func(net.Conn) {}
	refuses := func(c net.Conn) {
		_, _ = bufio.NewReader(c).ReadString('\n')
		fmt.Fprint(c, "-ERR 'Authorization Violation'\r\n")
	}
	for name, serve := range map[string]func(net.Conn){"nobody answers": nil, "hangs up": silent, "refuses": refuses} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, url := range secretURLs(fakeServer(t, serve)) {
				_, err := Dial(t.Context(), url, Options{})
				require.Error(t, err, url)
				requireHidden(t, err, url)
			}
		})
	}
}

// The server accepts the client and the stream can't be used.
func TestNoErrorShowsASecretOfTheConnectedURL(t *testing.T) {
	t.Parallel()
	server := startNATS(t, `accounts { A { users: [{ user: me, password: `+planted+` }] } }`)
	url := strings.Replace(server, "nats://", "nats://me:"+planted+"@", 1)
	_, err := Dial(t.Context(), url, Options{})
	require.Error(t, err, "its account has no JetStream")
	requireHidden(t, err, url)

	server = startNATS(t, `authorization { token: `+planted+` }`)
	url = strings.Replace(server, "nats://", "nats://"+planted+"@", 1)
	log, err := Dial(t.Context(), url, Options{Prefix: "one"})
	require.NoError(t, err, "the token is used")
	defer log.Close()
	_, err = Dial(t.Context(), url, Options{Prefix: "two"})
	require.ErrorIs(t, err, errForeign)
	require.ErrorContains(t, err, server)
	requireHidden(t, err, url)
}

// A password may have characters that a URL would have to escape.
func TestPasswordsThatAreNoURL(t *testing.T) {
	t.Parallel()
	server := startNATS(t, `authorization { users: [{ user: me, password: "p%a/s?s#w@r:d" }] }`)
	for _, password := range []string{"p%a/s?s#w@r:d", "p%25a%2Fs%3Fs%23w%40r%3Ad"} {
		nc, err := Connect(strings.Replace(server, "nats://", "nats://me:"+password+"@", 1), Access{})
		require.NoError(t, err, password)
		nc.Close()
	}
}

func requireHidden(t *testing.T, err error, url string) {
	t.Helper()
	for _, text := range []string{err.Error(), fmt.Sprintf("%+v", err), Redacted(url)} {
		require.NotContains(t, text, planted, url)
		require.NotContains(t, text, "%zz", url)
	}
}

func TestRedacted(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"nats://127.0.0.1:4222":                     "nats://127.0.0.1:4222",
		"127.0.0.1:4222":                            "127.0.0.1:4222",
		"nats.example":                              "nats.example",
		"nats://a:b@h:1,tls://c@[::1]:2, wss://i/p": "nats://h:1,tls://[::1]:2,wss://i/p",
		"http://key:secret@s3.example:9000/x":       "http://s3.example:9000/x",
		"nats://a:b":                                "(not a server's URL)",
	} {
		require.Equal(t, want, Redacted(given))
	}
}

// fakeServer greets as NATS does, serves and hangs up; nil: nothing listens.
func fakeServer(t *testing.T, serve func(net.Conn)) (address string) {
	t.Helper()
	if serve == nil {
		return teststack.ClosedAddress(t)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, `INFO {"server_id":"x","version":"2.11.0","auth_required":true,"max_payload":1048576}`+"\r\n")
			serve(c)
			c.Close()
		}
	}()
	return l.Addr().String()
}
