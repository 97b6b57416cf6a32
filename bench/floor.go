//go:build linux

package main

import (
	"bytes"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

// runFloor serves the floor: the same HTTP stack as the gateway's, reading
// the whole body and relaying it, and nothing else.
func runFloor(listen, upstream string) error {
	client := &http.Client{Transport: &http.Transport{
		MaxIdleConns: 4096, MaxIdleConnsPerHost: 4096, IdleConnTimeout: time.Minute, DisableCompression: true,
	}}
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.POST("/v1/chat/completions", func(c echo.Context) error {
		in := c.Request()
		body, err := io.ReadAll(in.Body)
		if err != nil {
			return err
		}
		out, err := http.NewRequestWithContext(in.Context(), in.Method, upstream+in.URL.Path, bytes.NewReader(body))
		if err != nil {
			return err
		}
		for _, name := range []string{"Content-Type", "Authorization"} {
			if v := in.Header.Get(name); v != "" {
				out.Header.Set(name, v)
			}
		}
		resp, err := client.Do(out)
		if err != nil {
			return echo.NewHTTPError(http.StatusBadGateway, err.Error())
		}
		defer resp.Body.Close()
		w := c.Response()
		w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
		if n := resp.Header.Get("Content-Length"); n != "" {
			w.Header().Set("Content-Length", n)
			w.WriteHeader(resp.StatusCode)
			_, err = io.Copy(w.Writer, resp.Body)
			return err
		}
		w.WriteHeader(resp.StatusCode)
		buf := make([]byte, 4<<10)
		for {
			n, err := resp.Body.Read(buf)
			if n > 0 {
				if _, err := w.Write(buf[:n]); err != nil {
					return nil // the client left
				}
				w.Flush()
			}
			if err != nil {
				return nil // a broken body shows: the answer does not end
			}
		}
	})
	return e.Start(listen)
}
