package bucket

import (
	"crypto/rand"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/sojourn-run/sojourn/archive/store"
	"github.com/sojourn-run/sojourn/test/storetest"
	"github.com/sojourn-run/sojourn/test/teststack"
)

// servers has the S3 gateway of the tests.
var servers teststack.Shared

func TestMain(m *testing.M) {
	code := m.Run()
	servers.Stop()
	os.Exit(code)
}

// The archive's store is one interface with one suite, and S3 passes it as a folder does.
func TestR137StoreIsS3(t *testing.T) {
	t.Parallel()
	name := "store-" + strings.ToLower(rand.Text())
	storetest.Run(t, func() store.Store { return New(name, teststack.Client(servers.S3(t), http.DefaultTransport)) })
}
