package archive

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sojourn-run/sojourn/archive/store"
	"github.com/sojourn-run/sojourn/archive/store/bucket"
	"github.com/sojourn-run/sojourn/archive/store/folder"
)

// Options of [Open]. The zero value works if the AWS environment is set up.
type Options struct {
	// Folder has everything, in place of a bucket, if all hosts and clients are on one machine.
	// Default: there is a bucket.
	Folder string
	// Bucket has everything; default "sojourn".
	Bucket string
	// Prefix is put before every key; default none.
	Prefix string
	// Namespace separates Temporal namespaces; default "default".
	Namespace string
	// Client reaches the bucket. Default: one made from the standard AWS environment and
	// config files, see [bucket.Open].
	Client bucket.S3
	// Store has everything, in place of a folder or bucket. Default: those.
	Store store.Store
	// Now stamps records; default time.Now.
	Now func() time.Time
}

// Archive is one namespace in one store.
type Archive struct {
	store  store.Store
	root   string
	now    func() time.Time
	limits limits

	mu    sync.Mutex
	heads map[string]stored[transcriptHead]
}

// limits shape transcripts; tests make them small.
type limits struct {
	// segment is the size in bytes up to which segments are merged. It also bounds
	// the memory of a merge and of a reader.
	segment int64
	// page is how many full segments move from a head to a page at once.
	page int
	// cache is how many transcript heads are cached.
	cache int
}

var defaultLimits = limits{segment: 8 << 20, page: 32, cache: 4096}

// Open returns an archive. It sends no request to the store: see [Archive.Setup].
func Open(ctx context.Context, o Options) (*Archive, error) {
	a := &Archive{
		store:  o.Store,
		now:    o.Now,
		limits: defaultLimits,
		heads:  map[string]stored[transcriptHead]{},
	}
	if a.now == nil {
		a.now = time.Now
	}
	namespace := cmp.Or(o.Namespace, "default")
	if strings.Contains(namespace, "/") {
		return nil, fmt.Errorf("archive: open: %w namespace %q: it has a slash", ErrInvalid, namespace)
	}
	a.root = namespace + "/"
	if prefix := strings.Trim(o.Prefix, "/"); prefix != "" {
		a.root = prefix + "/" + a.root
	}
	if a.store != nil {
		return a, nil
	}
	var err error
	if a.store, err = openStore(ctx, o, a.root); err != nil {
		return nil, fmt.Errorf("archive: open: %w", err)
	}
	return a, nil
}

func openStore(ctx context.Context, o Options, root string) (store.Store, error) {
	name := cmp.Or(o.Bucket, "sojourn")
	switch {
	case o.Folder != "":
		if err := folder.CheckKey(strings.TrimSuffix(root, "/")); err != nil {
			return nil, fmt.Errorf("prefix and namespace: %w", err)
		}
		return folder.Open(o.Folder)
	case o.Client != nil:
		return bucket.New(name, o.Client), nil
	}
	return bucket.Open(ctx, name)
}

// Setup makes the bucket or folder if it is missing, and so verifies that the store can be
// used; if not, the error is a [*store.ConnectError].
func (a *Archive) Setup(ctx context.Context) error { return a.store.Setup(ctx) }

// Exists reports whether there is the bucket or folder.
func (a *Archive) Exists(ctx context.Context) (bool, error) { return a.store.Exists(ctx) }
