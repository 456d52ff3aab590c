package probe
import ("testing";"time";"context";"syscall")
func cpu() time.Duration { var r syscall.Rusage; syscall.Getrusage(0,&r); return time.Duration(r.Utime.Nano()+r.Stime.Nano()) }
func TestZZCost(t *testing.T){
 for _, waiting := range []int{0,1} { for _,kind := range []Kind{TCP,HTTP} {
 r:=New(Options{Specs:[]Spec{{Container:"a",Kind:kind,Scheme:"http",Path:"/",Host:"127.0.0.1",Port:refusingPort(t),Timeout:time.Second,SuccessThreshold:1}}})
 ctx,cancel:=context.WithCancel(context.Background()); done:=make(chan struct{})
 if waiting>0 { r.Waiting(1) }
 c0:=cpu(); go func(){r.Run(ctx);close(done)}()
 for i:=0;i<4;i++{ time.Sleep(time.Second); c1:=cpu(); t.Logf("waiting %d %v second %d: cpu %v attempts %d",waiting,kind,i,c1-c0,r.Snapshot()[0].Attempts); c0=c1 }
 cancel();<-done
 }}
}
func TestZZIdle(t *testing.T){
 port:=serveHTTP(t,status(200),nil)
 r:=New(Options{Specs:[]Spec{{Container:"a",Kind:HTTP,Scheme:"http",Path:"/",Host:"127.0.0.1",Port:port,Timeout:time.Second,SuccessThreshold:1}}})
 ctx,cancel:=context.WithCancel(context.Background()); done:=make(chan struct{})
 go func(){r.Run(ctx);close(done)}()
 time.Sleep(16*time.Second); c0:=cpu(); time.Sleep(20*time.Second); t.Logf("idle 20 s incl. the server: cpu %v attempts %d",cpu()-c0,r.Snapshot()[0].Attempts)
 cancel();<-done
}
func TestZZ100k(t *testing.T){
 port:=serveHTTP(t,status(200),nil); p:=httpAt(port); f:=openFiles(t)
 for range 100000 { if r:=probeOnce(t,p); r.Cause.Kind!=CauseNone {t.Fatal(r)} }
 t.Log("http 100k: tw", timeWaits(t,port), "files", openFiles(t)-f)
 port=serveRaw(t,silent); tp:=&tcpProber{address:"127.0.0.1:"+portText(port)}
 for i:=range 20000 { if r:=probeOnce(t,tp); r.Cause.Kind!=CauseNone {t.Fatal(i,r)} }
 t.Log("tcp 20k: tw", timeWaits(t,port))
}
func BenchmarkZZProbe(b *testing.B){ }
