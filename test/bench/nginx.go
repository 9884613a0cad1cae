package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-mcp/holdfast/test/bench/proc"
	"github.com/holdfast-mcp/holdfast/test/bench/report"
	"github.com/holdfast-mcp/holdfast/test/checkout"
)

// nginxConf is nginx as a plain reverse proxy that lets event streams through
// and keeps its connections.
const nginxConf = `daemon off;
worker_processes 2;
pid TEMP/nginx.pid;
error_log stderr crit;
events { worker_connections 8192; }
http {
    access_log off;
    client_body_temp_path TEMP/body;
    proxy_temp_path TEMP/proxy;
    fastcgi_temp_path TEMP/fastcgi;
    uwsgi_temp_path TEMP/uwsgi;
    scgi_temp_path TEMP/scgi;
    keepalive_requests 1000000000;
    keepalive_timeout 10m;
    upstream server {
        server UPSTREAM;
        keepalive 256;
        keepalive_requests 1000000000;
    }
    server {
        listen LISTEN reuseport;
        location / {
            proxy_pass http://server;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
            proxy_read_timeout 10m;
        }
    }
}
`

// errNoNginx says what to install.
var errNoNginx = errors.New("nginx is missing: apt-get install nginx-light, or leave it out with -targets direct,holdfast")

// plainProxy is a running nginx.
type plainProxy struct {
	*proc.Child
	addr string
	pids []int // master and workers
}

// startNginx starts nginx in front of a server.
func (b *trial) startNginx(ctx context.Context, upstream string) (*plainProxy, error) {
	program, err := exec.LookPath("nginx")
	if err != nil {
		// Debian has it in a folder that only the administrator's path names.
		if program, err = exec.LookPath("/usr/sbin/nginx"); err != nil {
			return nil, errNoNginx
		}
	}
	p := &plainProxy{}
	if p.addr, err = checkout.FreeAddress(ctx); err != nil {
		return nil, err
	}
	text := strings.NewReplacer("TEMP", b.temp, "LISTEN", p.addr, "UPSTREAM", upstream).Replace(nginxConf)
	conf := filepath.Join(b.temp, "nginx.conf")
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("start nginx: %w", err)
	}
	if p.Child, err = proc.Start(nginx, program, "-e", "stderr", "-p", b.temp, "-c", conf); err != nil {
		return nil, err
	}
	if err := p.Until(ctx, p.ready); err != nil {
		p.Stop()
		return nil, err
	}
	b.command("nginx -e stderr -p $TEMP -c $TEMP/nginx.conf")
	b.file(report.File{Name: "nginx.conf", Text: strings.ReplaceAll(text, b.temp, "$TEMP")})
	return p, nil
}

// ready finds out whether the workers serve.
func (p *plainProxy) ready() error {
	workers, err := proc.Children(p.PID())
	if err != nil {
		return err
	}
	if len(workers) < 2 {
		return fmt.Errorf("%d workers of 2", len(workers))
	}
	nc, err := net.DialTimeout("tcp", p.addr, time.Second)
	if err != nil {
		return err
	}
	nc.Close()
	p.pids = append([]int{p.PID()}, workers...)
	return nil
}
