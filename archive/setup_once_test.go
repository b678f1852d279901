package archive

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/test/teststack"
)

// Several that start at once make one bucket, whatever the store answers.
func TestSetupAtOnce(t *testing.T) {
	t.Parallel()
	const bucket = "sojourn-setup-at-once"
	client := teststack.Client(servers.S3(t), nil)
	errs := make([]error, 12)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			a, err := Open(t.Context(), Options{Bucket: bucket, Client: client})
			if err == nil {
				err = a.Setup(t.Context())
			}
			errs[i] = err
		})
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
}
