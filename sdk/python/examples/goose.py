import atoll

with atoll.Atoll() as client, client.get_or_create("goose") as sandbox:
    sandbox.git.clone("/home/user/origin", "/home/user/app")
    sandbox.execs.start("npm run dev", directory="/home/user/app", name="dev server")
    sandbox.wait_for_port(5173)
    print(sandbox.expose(5173).url, flush=True)
    input()
    sandbox.files.edit("/home/user/app/greeting.js", "Hello", "Honk")
