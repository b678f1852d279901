package stream

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Access is how a client authenticates to NATS, and how it verifies the server.
// The zero value uses only the server's URL (nats://USER:PASSWORD@HOST or
// nats://TOKEN@HOST). At most one of Credentials, NKey, Token and User may be
// set.
type Access struct {
	// Credentials is a file with a user's JWT and seed (.creds).
	Credentials string
	// NKey is a file with an nkey's seed.
	NKey string
	// Token is a token, User and Password a user of the server's configuration.
	Token          string
	User, Password string
	// CA is a file with the certificates (PEM) by which the server is verified; with
	// it the connection must use TLS. Default: the system's.
	CA string
	// Cert and Key are files with this client's own certificate and its key
	// (PEM), for servers that verify clients. Both or neither.
	Cert, Key string
}

// AccessFrom reads the variables that the nats command line reads: NATS_CREDS,
// NATS_NKEY, NATS_TOKEN, NATS_USER, NATS_PASSWORD, NATS_CA, NATS_CERT and
// NATS_KEY.
func AccessFrom(getenv func(string) string) Access {
	return Access{
		Credentials: getenv("NATS_CREDS"), NKey: getenv("NATS_NKEY"), Token: getenv("NATS_TOKEN"),
		User: getenv("NATS_USER"), Password: getenv("NATS_PASSWORD"),
		CA: getenv("NATS_CA"), Cert: getenv("NATS_CERT"), Key: getenv("NATS_KEY"),
	}
}

// Files returns the paths of the files that hold secrets.
func (a Access) Files() []string {
	var files []string
	for _, f := range []string{a.Credentials, a.NKey, a.Key} {
		if f != "" {
			files = append(files, f)
		}
	}
	return files
}

// connectTimeout bounds a server's first answer. A busy machine's takes longer than the two
// seconds of the library's default.
const connectTimeout = 5 * time.Second

// Connect connects to the servers at url (commas between several) with the
// access and further options. It fails with [*UnreachableError] when no server
// answers or all refuse the access.
func Connect(url string, a Access, o ...nats.Option) (*nats.Conn, error) {
	access, err := a.options()
	if err != nil {
		return nil, fmt.Errorf("stream: access to NATS: %w", err)
	}
	servers, err := clientURLs(url)
	if err != nil {
		return nil, &UnreachableError{Addr: Redacted(url), Hint: hintURL, Err: err}
	}
	nc, err := nats.Connect(servers, slices.Concat([]nats.Option{nats.Name("sojourn"), nats.Timeout(connectTimeout)}, access, o)...)
	if err != nil {
		return nil, &UnreachableError{Addr: Redacted(url), Hint: hintConnect(err), Err: err}
	}
	return nc, nil
}

// options returns the options for [nats.Connect]. An error names the setting.
func (a Access) options() ([]nats.Option, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	var o []nats.Option
	switch {
	case a.Credentials != "":
		o = append(o, nats.UserCredentials(a.Credentials))
	case a.NKey != "":
		key, err := nats.NkeyOptionFromSeed(a.NKey)
		if err != nil {
			return nil, fmt.Errorf("NATS_NKEY: %s holds no nkey seed: %w", a.NKey, err)
		}
		o = append(o, key)
	case a.Token != "":
		o = append(o, nats.Token(a.Token))
	case a.User != "":
		o = append(o, nats.UserInfo(a.User, a.Password))
	}
	if a.CA != "" {
		o = append(o, nats.RootCAs(a.CA))
	}
	if a.Cert != "" {
		o = append(o, nats.ClientCert(a.Cert, a.Key))
	}
	return o, nil
}

func (a Access) check() error {
	var ways []string
	for _, s := range []struct{ name, value string }{
		{"NATS_CREDS", a.Credentials}, {"NATS_NKEY", a.NKey}, {"NATS_TOKEN", a.Token}, {"NATS_USER", a.User},
	} {
		if s.value != "" {
			ways = append(ways, s.name)
		}
	}
	switch {
	case len(ways) > 1:
		return fmt.Errorf("%s are set, want one of them", strings.Join(ways, " and "))
	case a.Password != "" && a.User == "":
		return errors.New("NATS_PASSWORD is set without NATS_USER")
	case a.Cert != "" && a.Key == "":
		return errors.New("NATS_CERT is set without NATS_KEY, the file of its key")
	case a.Key != "" && a.Cert == "":
		return errors.New("NATS_KEY is set without NATS_CERT, the file of its certificate")
	}
	return a.checkFiles()
}

// checkFiles returns an error for the first file that can't be read: the client
// would report it only after it has connected, as if the server had refused it.
func (a Access) checkFiles() error {
	for _, s := range []struct{ name, path string }{
		{"NATS_CREDS", a.Credentials}, {"NATS_NKEY", a.NKey}, {"NATS_CA", a.CA}, {"NATS_CERT", a.Cert}, {"NATS_KEY", a.Key},
	} {
		if s.path == "" {
			continue
		}
		f, err := os.Open(s.path)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		f.Close()
	}
	return nil
}

// refused reports whether the server answered and refused the client.
func refused(err error) bool {
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAuthRevoked)
}

// hintConnect returns what helps against the error of a connect.
func hintConnect(err error) string {
	if refused(err) {
		return hintAccess
	}
	return hintStart
}
