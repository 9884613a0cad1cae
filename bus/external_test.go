package bus

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
	"github.com/rs/zerolog"
)

// Every way to prove who one is to an external server, over TLS and without: the
// right credentials lead to peers, and others, or none, to a bus that says that
// it is down. No log or status tells a secret.
func TestExternalCredentials(t *testing.T) {
	const token, wrong = "hunter2-right", "hunter2-wrong"
	ours, theirs := newCA(t), newCA(t)
	dir := t.TempDir()
	user, stranger := newSeed(t, dir, "user"), newSeed(t, dir, "stranger")
	operator := newOperator(t)
	account := operator.account(t)
	for name, test := range map[string]struct {
		server  server.Options
		right   Settings
		refused []Settings
		reason  string // of which they are
	}{
		"token": {
			server.Options{Authorization: token},
			Settings{Token: token},
			[]Settings{{}, {Token: wrong}},
			"authorization violation",
		},
		"nkey": {
			server.Options{Nkeys: []*server.NkeyUser{{Nkey: user.public}}},
			Settings{NKeyFile: user.file},
			[]Settings{{}, {NKeyFile: stranger.file}, {Token: wrong}},
			"authorization violation",
		},
		"credentials file": {
			server.Options{TrustedKeys: []string{operator.public}, AccountResolver: account.resolver},
			Settings{CredentialsFile: account.user(t, dir, "right")},
			[]Settings{{}, {CredentialsFile: newOperator(t).account(t).user(t, dir, "wrong")}},
			"authorization violation",
		},
		"TLS": {
			overTLS(t, ours, false),
			Settings{TLS: TLS{CA: ours.file, Name: "replicas.test"}},
			[]Settings{{}, {TLS: TLS{CA: theirs.file, Name: "replicas.test"}}, {TLS: TLS{CA: ours.file, Name: "others.test"}}},
			"tls: ",
		},
		"TLS, certificates of clients": {
			overTLS(t, ours, true),
			Settings{TLS: ours.issue(t)},
			[]Settings{{TLS: TLS{CA: ours.file, Name: "replicas.test"}}, {TLS: theirsTo(ours, theirs.issue(t))}},
			"tls: ",
		},
		"TLS, token": {
			withToken(overTLS(t, ours, false), token),
			Settings{Token: token, TLS: TLS{CA: ours.file, Name: "replicas.test"}},
			[]Settings{{Token: wrong, TLS: TLS{CA: ours.file, Name: "replicas.test"}}},
			"authorization violation",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, url := natsServerWith(t, "", &test.server)
			var log logged
			join := func(id string, s Settings) *Bus {
				s.Replica, s.URL, s.OwnerTimeout = id, url, brisk
				b, err := Open(s, zerolog.New(&log))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { b.Close(t.Context()) }) // which is over by then: at once
				return b
			}
			a, b := join("a", test.right), join("b", test.right)
			awaitPeers(t, a, 1)
			serveEcho(b)
			if got := ask(t, a, "b", "let in"); got != "let in" {
				t.Errorf("answer %q", got)
			}
			for i, s := range test.refused {
				out := join(fmt.Sprint("out", i), s)
				await(t, "the refusal", func() bool { return strings.Contains(strings.ToLower(out.Status().Reason), test.reason) })
				if st := out.Status(); st.Connected || len(out.Peers()) != 0 {
					t.Errorf("%d: status %+v with %d peers, want neither", i, st, len(out.Peers()))
				}
				if reason := out.Status().Reason; strings.Contains(reason, "hunter2") || strings.Contains(reason, stranger.seed) {
					t.Errorf("%d: the reason tells the secret: %s", i, reason)
				}
			}
			if n := len(a.Peers()); n != 1 {
				t.Errorf("%d peers, want the one with the right credentials", n)
			}
			for _, secret := range []string{token, wrong, user.seed, stranger.seed} {
				if log.has(secret) {
					t.Errorf("the log tells %q", secret)
				}
			}
		})
	}
}

// overTLS is a server with a certificate of a CA, which may want one of its
// clients as well.
func overTLS(t *testing.T, c *ca, mutual bool) server.Options {
	t.Helper()
	files := c.issue(t)
	config, err := server.GenTLSConfig(&server.TLSConfigOpts{CertFile: files.Cert, KeyFile: files.Key, CaFile: files.CA, Verify: mutual})
	if err != nil {
		t.Fatal(err)
	}
	return server.Options{TLSConfig: config, TLS: true, TLSVerify: mutual, TLSTimeout: patience.Seconds()}
}

func withToken(o server.Options, token string) server.Options {
	o.Authorization = token
	return o
}

// theirsTo are certificate and key of another CA than the one that is trusted.
func theirsTo(trusted *ca, files TLS) TLS {
	files.CA = trusted.file
	return files
}

// seed is an NKey of a user.
type seed struct{ seed, public, file string }

func newSeed(t *testing.T, dir, name string) seed {
	t.Helper()
	s := identityOf(t, nkeys.CreateUser)
	text, err := s.pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, name+".nk")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return seed{string(text), s.public, file}
}

// identity is a key pair that signs JWTs for others.
type identity struct {
	pair     nkeys.KeyPair
	public   string
	resolver *server.MemAccResolver // of an account
}

func identityOf(t *testing.T, create func() (nkeys.KeyPair, error)) *identity {
	t.Helper()
	pair, err := create()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return &identity{pair: pair, public: public}
}

func newOperator(t *testing.T) *identity { return identityOf(t, nkeys.CreateOperator) }

// vouch signs that a key is what the claims say.
func (i *identity) vouch(t *testing.T, public string, claims map[string]any) string {
	t.Helper()
	claims["version"] = 2
	body, err := json.Marshal(map[string]any{"jti": "1", "iat": 1, "iss": i.public, "name": "test", "sub": public, "nats": claims})
	if err != nil {
		t.Fatal(err)
	}
	plain := base64.RawURLEncoding.EncodeToString([]byte(`{"typ":"JWT","alg":"ed25519-nkey"}`)) + "." + base64.RawURLEncoding.EncodeToString(body)
	signature, err := i.pair.Sign([]byte(plain))
	if err != nil {
		t.Fatal(err)
	}
	return plain + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// account is an account of an operator, without limits.
func (i *identity) account(t *testing.T) *identity {
	t.Helper()
	a := identityOf(t, nkeys.CreateAccount)
	a.resolver = &server.MemAccResolver{}
	err := a.resolver.Store(a.public, i.vouch(t, a.public, map[string]any{
		"type":   "account",
		"limits": map[string]any{"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1},
	}))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// user writes the credentials file of a user of the account.
func (i *identity) user(t *testing.T, dir, name string) string {
	t.Helper()
	u := newSeed(t, dir, name)
	jwt := i.vouch(t, u.public, map[string]any{"type": "user", "pub": map[string]any{}, "sub": map[string]any{}, "subs": -1, "data": -1, "payload": -1})
	file := filepath.Join(dir, name+".creds")
	text := "-----BEGIN NATS USER JWT-----\n" + jwt + "\n------END NATS USER JWT------\n\n" +
		"-----BEGIN USER NKEY SEED-----\n" + u.seed + "\n------END USER NKEY SEED------\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
