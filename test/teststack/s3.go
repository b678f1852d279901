package teststack

import (
	"context"
	"errors"
	"net/http"
	"os"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// S3 returns the settings of the stack's S3 gateway, or of the one in the environment:
// SOJOURN_S3_TEST_ENDPOINT with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
func (s *Shared) S3(t testing.TB) map[string]string {
	t.Helper()
	if endpoint := os.Getenv("SOJOURN_S3_TEST_ENDPOINT"); endpoint != "" {
		return map[string]string{
			"AWS_ENDPOINT_URL_S3":   endpoint,
			"AWS_ACCESS_KEY_ID":     os.Getenv("AWS_ACCESS_KEY_ID"),
			"AWS_SECRET_ACCESS_KEY": os.Getenv("AWS_SECRET_ACCESS_KEY"),
		}
	}
	return s.Get(t).Env
}

// Client returns a client of the gateway in the settings. It tries each request once:
// the product must handle the failures that a test causes.
func Client(env map[string]string, transport http.RoundTripper) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint:               aws.String(env["AWS_ENDPOINT_URL_S3"]),
		Region:                     "us-east-1",
		UsePathStyle:               true,
		HTTPClient:                 &http.Client{Transport: transport},
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: env["AWS_ACCESS_KEY_ID"], SecretAccessKey: env["AWS_SECRET_ACCESS_KEY"]}, nil
		}),
		RetryMaxAttempts: 1,
	})
}

// ErrCut is the error of a request that a [Wire] let fail.
var ErrCut = errors.New("the line was cut")

// Wire is the transport to a store. It counts requests and lets some of them fail.
type Wire struct {
	// Cut decides whether the n-th request, counted from 1, is lost before it reaches
	// the store, or its answer after that. Nil loses none.
	Cut func(n int) (before, after bool)

	mu sync.Mutex
	n  int
	// requests and sent are the counts since the last call of Asked.
	requests, sent int64
}

// RoundTrip implements http.RoundTripper.
func (w *Wire) RoundTrip(r *http.Request) (*http.Response, error) {
	n := w.note(r)
	var before, after bool
	if w.Cut != nil {
		before, after = w.Cut(n)
	}
	if before {
		return nil, ErrCut
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && after {
		_ = resp.Body.Close()
		return nil, ErrCut
	}
	return resp, err
}

func (w *Wire) note(r *http.Request) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n++
	if r.Method != http.MethodDelete {
		w.requests++
		w.sent += max(r.ContentLength, 0)
	}
	return w.n
}

// Count returns the number of requests.
func (w *Wire) Count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.n
}

// Asked returns the number of requests since the last call, without deletions, and the
// bytes sent with them.
func (w *Wire) Asked() (requests, bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	requests, bytes = w.requests, w.sent
	w.requests, w.sent = 0, 0
	return requests, bytes
}

// Faults returns the ways in which the request with a number may fail, as [Wire.Cut].
func Faults() map[string]func(at int) func(n int) (before, after bool) {
	return map[string]func(int) func(int) (bool, bool){
		"refused":     func(at int) func(int) (bool, bool) { return func(n int) (bool, bool) { return n == at, false } },
		"answer lost": func(at int) func(int) (bool, bool) { return func(n int) (bool, bool) { return false, n == at } },
		// The process dies: it doesn't receive the answer and sends no more requests.
		"died": func(at int) func(int) (bool, bool) {
			return func(n int) (bool, bool) { return n > at, n == at }
		},
	}
}
