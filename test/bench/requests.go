package main

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
)

// requestCounter stands between a worker and S3, and counts requests by the
// session whose objects they are about. Safe for concurrent use.
type requestCounter struct {
	url  string
	stop func()

	mu sync.Mutex
	by map[string]int
}

// countRequests starts a counter before an S3 endpoint. Requests arrive there as
// they were signed.
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
		w.WriteHeader(http.StatusBadGateway) // the worker says so if it minds: mostly it has gone
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

// of returns how many requests were about a session.
func (c *requestCounter) of(session string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.by[session]
}
