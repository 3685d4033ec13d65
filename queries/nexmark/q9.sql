WITH valid AS (
    SELECT id, price, bid.date_time
    FROM auction JOIN bid ON id = auction
    WHERE bid.date_time BETWEEN auction.date_time AND expires
), highest AS (
    SELECT id, max(price) AS price FROM valid GROUP BY id
), winning AS (
    SELECT id, min(date_time) AS date_time FROM valid JOIN highest USING (id, price) GROUP BY id
)
SELECT auction.id, item_name, description, initial_bid, reserve, auction.date_time, expires, seller, category,
       auction.extra, bidder, price, bid.date_time AS bid_date_time, bid.extra AS bid_extra
FROM winning JOIN auction ON winning.id = auction.id
     JOIN bid ON bid.auction = winning.id AND bid.date_time = winning.date_time
