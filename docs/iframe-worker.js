/* Browsers start no worker from a file on disk: there its script runs in a frame of the page instead. */
if (location.protocol === "file:") {
  class FrameWorker extends EventTarget {
    constructor(url) {
      super()
      const answer = data => this.dispatchEvent(new MessageEvent("message", { data }))
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.documentElement.append(frame)
      this.frame = frame.contentWindow
      this.waiting = []
      this.frame.postMessage = answer
      const script = frame.contentDocument.createElement("script")
      script.onload = () => {
        for (const data of this.waiting.splice(0)) this.#hand(data)
        this.waiting = null
      }
      script.src = new URL(url, location).href
      frame.contentDocument.documentElement.append(script)
      this.addEventListener("message", event => this.onmessage?.(event))
    }

    postMessage(data) {
      this.waiting === null ? this.#hand(data) : this.waiting.push(data)
    }

    #hand(data) {
      this.frame.dispatchEvent(new this.frame.MessageEvent("message", { data }))
    }

    terminate() {
      this.frame.frameElement.remove()
    }
  }
  window.Worker = window.IFrameWorker = FrameWorker
}
