package stream

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/test/skip"
)

// natsServerDir is made by natsServer and removed by TestMain.
var natsServerDir string

// natsServer builds the real server, once, from the development stack's
// dependency.
var natsServer = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "sojourn-nats-")
	if err != nil {
		return "", err
	}
	natsServerDir = dir
	program := filepath.Join(dir, "nats-server")
	out, err := exec.Command("go", "-C", filepath.Join("..", "devstack"), "build", "-o", program, "github.com/nats-io/nats-server/v2").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build nats-server: %w: %s", err, out)
	}
	return program, nil
})

// startNATS starts a server with JetStream and the configuration, and returns its
// URL.
func startNATS(t *testing.T, config string) string {
	t.Helper()
	program, err := natsServer()
	require.NoError(t, err)
	dir := t.TempDir()
	file := filepath.Join(dir, "nats.conf")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	log := new(lockedBuffer)
	cmd := exec.Command(program, "--config", file, "--addr", "127.0.0.1", "--port", "-1", "--jetstream",
		"--store_dir", dir, "--ports_file_dir", dir)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	var url string
	require.Eventually(t, func() bool {
		_, rest, found := strings.Cut(log.String(), "Listening for client connections on ")
		url, _, _ = strings.Cut(rest, "\n")
		return found && strings.Contains(rest, "Server is ready")
	}, time.Minute, 10*time.Millisecond, "%s", log)
	return "nats://" + strings.TrimSpace(url)
}

// TestAccess connects to servers that require each kind of authentication, with
// it and without.
func TestAccess(t *testing.T) {
	t.Parallel()
	const kept = "testdata/access/"
	read := func(name string) string {
		data, err := os.ReadFile(kept + name)
		require.NoError(t, err)
		return string(data)
	}
	tls := newAuthority(t)
	for name, c := range map[string]struct {
		config  string
		env     map[string]string
		refused bool
	}{
		"token":       {config: `authorization { token: "open sesame" }`, env: map[string]string{"NATS_TOKEN": "open sesame"}, refused: true},
		"user":        {config: `authorization { users: [{ user: worker, password: secret }] }`, env: map[string]string{"NATS_USER": "worker", "NATS_PASSWORD": "secret"}, refused: true},
		"nkey":        {config: read("nkey.conf"), env: map[string]string{"NATS_NKEY": kept + "user.nk"}, refused: true},
		"credentials": {config: read("creds.conf"), env: map[string]string{"NATS_CREDS": kept + "user.creds"}, refused: true},
		"TLS both ways": {
			config: fmt.Sprintf("tls { cert_file: %q, key_file: %q, ca_file: %q, verify: true }", tls.cert, tls.key, tls.ca),
			env:    map[string]string{"NATS_CA": tls.ca, "NATS_CERT": tls.cert, "NATS_KEY": tls.key},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := startNATS(t, c.config)
			o := uniqueOptions(t)
			_, err := Dial(t.Context(), url, o)
			var away *UnreachableError
			require.ErrorAs(t, err, &away, "without")
			if c.refused {
				require.Contains(t, away.Hint, "NATS_CREDS")
			}
			o.Access = AccessFrom(func(name string) string { return c.env[name] })
			log, err := Dial(t.Context(), url, o)
			require.NoError(t, err, "with")
			defer log.Close()
			b := &bundle{Log: log, url: url}
			require.NotNil(t, b.writer(t, "s1", 1, 1))
		})
	}
}

// TestDevelopmentStackAsksForItsToken: a client that reaches the port of NATS
// without the token gets nothing.
func TestDevelopmentStackAsksForItsToken(t *testing.T) {
	t.Parallel()
	url := natsURL(t)
	if os.Getenv(envURL) != "" {
		skip.Without(t, "the development stack's server: "+envURL+" names another")
	}
	_, err := Dial(t.Context(), Redacted(url), Options{})
	require.ErrorIs(t, err, nats.ErrAuthorization)
	_, err = Dial(t.Context(), Redacted(url), Options{Access: Access{Token: "another"}})
	require.ErrorIs(t, err, nats.ErrAuthorization)
}

func TestAccessThatCannotBe(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for want, a := range map[string]Access{
		"NATS_TOKEN and NATS_USER are set, want one of them": {Token: "t", User: "u"},
		"NATS_PASSWORD is set without NATS_USER":             {Password: "p"},
		"NATS_CERT is set without NATS_KEY":                  {Cert: "c"},
		"NATS_KEY is set without NATS_CERT":                  {Key: "k"},
		"NATS_CREDS: open /nowhere/creds":                    {Credentials: "/nowhere/creds"},
		"NATS_CA: open /nowhere/ca":                          {CA: "/nowhere/ca"},
		"NATS_NKEY: " + empty + " holds no nkey seed":        {NKey: empty},
	} {
		_, err := Dial(t.Context(), "nats://127.0.0.1:1", Options{Access: a})
		require.ErrorContains(t, err, want)
	}
}

func TestErrorsKeepTheURLsSecrets(t *testing.T) {
	t.Parallel()
	_, err := Dial(t.Context(), "nats://sesame@127.0.0.1:1,nats://me:sesame@127.0.0.1:2,sesame@127.0.0.1:3", Options{})
	require.ErrorContains(t, err, "nats://127.0.0.1:1,nats://127.0.0.1:2,127.0.0.1:3")
	require.NotContains(t, err.Error(), "sesame")
}

// authority is a certificate that signs itself, for server and client.
type authority struct{ ca, cert, key string }

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "sojourn test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	dir := t.TempDir()
	write := func(name, kind string, b []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600))
		return path
	}
	a := authority{cert: write("cert.pem", "CERTIFICATE", cert), key: write("key.pem", "PRIVATE KEY", der)}
	a.ca = a.cert
	return a
}
