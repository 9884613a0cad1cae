package bus

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

func TestUnusableSettings(t *testing.T) {
	dir := t.TempDir()
	junk := filepath.Join(dir, "junk")
	if err := os.WriteFile(junk, []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	taken := freePort(t)
	open(t, Settings{Replica: "holder", Cluster: Cluster{Listen: taken, Secret: "x"}})
	listen := freePort(t)
	missing := filepath.Join(dir, "missing")
	for want, s := range map[string]Settings{
		"replica id":                   {Replica: "not.one"},
		"namespace":                    {Namespace: "a.>"},
		"owner timeout":                {OwnerTimeout: time.Millisecond},
		"window":                       {Window: 1},
		"chunk":                        {Chunk: 2 << 20},
		"max message":                  {MaxMessage: -1},
		"max streams":                  {MaxStreams: -1},
		"want one of them":             {URL: "nats://h", Cluster: Cluster{Listen: listen, Secret: "x"}},
		"without an address":           {Cluster: Cluster{Peers: []string{"h:1"}}},
		"URL 1 cannot be parsed":       {URL: "nats://u:hunter2@h:port"},
		"want nats://":                 {URL: "nats://h,http://u:hunter2@h"},
		"has no host":                  {URL: "nats://u:hunter2@:4222"},
		"more than one of":             {URL: "nats://h", Token: "hunter2", NKeyFile: junk},
		"credentials file: open":       {URL: "nats://h", CredentialsFile: missing},
		"holds no user JWT":            {URL: "nats://h", CredentialsFile: junk},
		"nkey file":                    {URL: "nats://h", NKeyFile: junk},
		"CA: open":                     {URL: "tls://h", TLS: TLS{CA: missing}},
		"holds no certificate":         {URL: "tls://h", TLS: TLS{CA: junk}},
		"certificate: ":                {URL: "tls://h", TLS: TLS{Cert: junk, Key: junk}},
		"needs a secret":               {Cluster: Cluster{Listen: listen}},
		"certificate, key and CA":      {Cluster: Cluster{Listen: listen, TLS: TLS{Cert: junk, Key: junk}}},
		"cluster TLS":                  {Cluster: Cluster{Listen: listen, TLS: TLS{Cert: junk, Key: junk, CA: junk}}},
		"cluster listen: \"no-port\"":  {Cluster: Cluster{Listen: "no-port", Secret: "hunter2"}},
		"port must be":                 {Cluster: Cluster{Listen: "h:0", Secret: "hunter2"}},
		"cluster peer: \":1\" has no":  {Cluster: Cluster{Listen: listen, Secret: "x", Peers: []string{":1"}}},
		"bind: address already in use": {Cluster: Cluster{Listen: taken, Secret: "hunter2"}},
	} {
		if s.Replica == "" {
			s.Replica = "r"
		}
		b, err := Open(s, zerolog.Nop())
		switch {
		case err == nil:
			b.Close(t.Context())
			t.Errorf("opens, want an error with %q", want)
		case !strings.Contains(err.Error(), want):
			t.Errorf("error %q, want one with %q", err, want)
		case strings.Contains(err.Error(), "hunter2"):
			t.Errorf("error %q tells a secret", err)
		}
	}
}
