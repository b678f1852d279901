package main

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
)

// requestCounter is a proxy between a worker and S3 that counts requests by the session
// of their objects. Safe for concurrent use.
type requestCounter struct {
	url  string
	stop func()

	mu sync.Mutex
	by map[string]int
}

// countRequests starts a counter in front of an S3 endpoint. It forwards requests
// unchanged, so their signatures stay valid.
func countRequests(endpoint string) (*requestCounter, error) {
	target, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	c := &requestCounter{by: map[string]int{}}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}, ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
		w.WriteHeader(http.StatusBadGateway) // usually the worker has disconnected; otherwise it reports the error itself
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.count(r.URL)
		proxy.ServeHTTP(w, r)
	}))
	c.url, c.stop = server.URL, server.Close
	return c, nil
}

// count finds the session in an object's key or in a listing's prefix.
func (c *requestCounter) count(u *url.URL) {
	_, rest, found := strings.Cut(u.Path+"?"+u.Query().Get("prefix"), "/sessions/")
	if !found {
		return
	}
	id, _, _ := strings.Cut(rest, "/")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by[id]++
}

// of returns the number of requests for a session.
func (c *requestCounter) of(session string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.by[session]
}
