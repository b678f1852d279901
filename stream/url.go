package stream

import (
	"fmt"
	"net/url"
	"strings"
)

// Redacted returns the servers' URLs (commas between several) without user,
// password and token. Of a text that is not a URL it shows nothing. Use it in
// every error, log and print that names a server.
func Redacted(urls string) string {
	all := strings.Split(urls, ",")
	for i, s := range all {
		_, hasScheme, u := serverURL(s)
		switch {
		case u == nil:
			all[i] = "(not a server's URL)"
		case hasScheme:
			u.User = nil
			all[i] = u.String()
		default:
			all[i] = u.Host
		}
	}
	return strings.Join(all, ",")
}

// clientURLs returns the URLs as the client parses them: with user, password and
// token escaped. The client's own error about a URL would show all of it.
func clientURLs(urls string) (string, error) {
	all := strings.Split(urls, ",")
	for i, s := range all {
		user, _, u := serverURL(s)
		if u == nil {
			return "", fmt.Errorf("server %d of %d is no URL: want nats://HOST:PORT, or nats://USER:PASSWORD@HOST:PORT with a comma in the password as %%2C", i+1, len(all))
		}
		u.User = user
		all[i] = u.String()
	}
	return strings.Join(all, ","), nil
}

// serverURL splits one server's URL; u is nil if it is not one. What precedes the
// last @ is user and password, or a token, escaped or not. The scheme may be left
// out.
func serverURL(s string) (user *url.Userinfo, hasScheme bool, u *url.URL) {
	scheme, rest, hasScheme := strings.Cut(strings.TrimSpace(s), "://")
	if !hasScheme {
		scheme, rest = "nats", scheme
	}
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		user, rest = userinfo(rest[:at]), rest[at+1:]
	}
	u, err := url.Parse(scheme + "://" + rest)
	if err != nil || u.Hostname() == "" {
		return nil, hasScheme, nil
	}
	return user, hasScheme, u
}

func userinfo(s string) *url.Userinfo {
	name, password, isUser := strings.Cut(s, ":")
	if !isUser {
		return url.User(unescaped(name))
	}
	return url.UserPassword(unescaped(name), unescaped(password))
}

func unescaped(s string) string {
	plain, err := url.PathUnescape(s)
	if err != nil {
		return s
	}
	return plain
}
